package plaintext_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/plaintext"
)

// A CSV as a spreadsheet saves it, with a byte order mark and CR LF. An error names the file and the line.
func ExampleTable() {
	read := func(text string) error {
		return plaintext.Table("links.csv", strings.NewReader(text), func(head []string) error {
			if want := []string{"link", "mbit"}; !slices.Equal(head, want) {
				return fmt.Errorf("the header is %q, expected %q", head, want)
			}
			return nil
		}, func(r *plaintext.Row) error {
			name, rate := r.Text(0), r.Number(1, 0, 1e5)
			if r.Err == nil {
				fmt.Println(name, rate)
			}
			return r.Err
		})
	}
	fmt.Println(read("\ufefflink,mbit\r\nlte,12.5\r\n"))
	fmt.Println(read("link,mbit\nlte,fast\n"))
	// Output:
	// lte 12.5
	// <nil>
	// links.csv:2: mbit: "fast", expected 0 to 100000
}
