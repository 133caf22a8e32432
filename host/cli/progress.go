package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// Without a terminal, progress is printed as lines. The first line is delayed, so that quick commands print none.
const (
	firstLine = 5 * time.Second
	nextLine  = 20 * time.Second
)

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	return term.IsTerminal(int(f.Fd()))
}

// Progress shows how many of `total` steps are done, and the remaining time: a bar on a terminal, otherwise lines.
// Several goroutines may call set. done ends the progress, even before the last step.
func Progress(ctx context.Context, w io.Writer, name string, total int) (set func(int), done func()) {
	if total < 1 {
		return func(int) {}, func() {}
	}
	if !Terminal(w) {
		l := &lines{w: w, name: name, total: total, now: time.Now, began: time.Now()}
		l.next = l.began.Add(firstLine)
		return l.set, func() {}
	}
	p := mpb.NewWithContext(ctx, mpb.WithOutput(w), mpb.WithWidth(40))
	bar := p.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name(name+" "), decor.CountersNoUnit("%d / %d")),
		mpb.AppendDecorators(decor.AverageETA(decor.ET_STYLE_GO)))
	return func(n int) { bar.SetCurrent(int64(n)) }, func() { bar.Abort(false); p.Wait() }
}

type lines struct {
	w     io.Writer
	name  string
	total int
	now   func() time.Time

	mu          sync.Mutex
	began, next time.Time
}

func (l *lines) set(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Before(l.next) || n < 1 || n >= l.total {
		return
	}
	l.next = now.Add(nextLine)
	gone := now.Sub(l.began)
	left := time.Duration(float64(gone) * float64(l.total-n) / float64(n))
	fmt.Fprintf(l.w, "%s: %d of %d after %s, about %s left\n", l.name, n, l.total, gone.Round(time.Second), left.Round(time.Second))
}
