// Package reporttest opens pages in a browser, for tests.
package reporttest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Open returns a page's document after chromium has run the page's scripts. Output on the browser's console is a
// failure. A missing browser is a failure if the set-up was run (SLUICE_SETUP); otherwise the test is skipped. The
// browser can only connect to this machine.
func Open(t *testing.T, url string, flags ...string) []byte {
	t.Helper()
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			browser = p
			break
		}
	}
	if browser == "" && os.Getenv("SLUICE_SETUP") != "" {
		t.Fatal("there is no browser though the set-up ran: install the package chromium")
	}
	if browser == "" {
		t.Skip("the page was NOT looked at: there is no browser; install the package chromium")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
		"--user-data-dir=" + filepath.Join(t.TempDir(), "profile"), "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--window-size=1240,2000", "--dump-dom", url,
	}, flags...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, stderr.String())
	}
	for line := range bytes.Lines(stderr.Bytes()) {
		if bytes.Contains(line, []byte(":CONSOLE")) {
			t.Errorf("the page writes to the console: %s", line)
		}
	}
	return dom
}
