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

// Open returns a page's document after chromium has run its scripts. It skips the test on a machine without a
// browser, unless the set-up ran (SLUICE_SETUP): then a missing browser is a failure.
func Open(t *testing.T, file string) []byte {
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
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+filepath.Join(t.TempDir(), "profile"), "--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1240,2000",
		"--dump-dom", "file://"+file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, stderr.String())
	}
	return dom
}
