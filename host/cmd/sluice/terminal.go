// Progress for people: bars on a terminal, nothing elsewhere.

package main

import (
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	return term.IsTerminal(int(f.Fd()))
}

// progress shows a bar on a terminal. set tells how far it is; done ends it, also half way.
func (e *env) progress(name string, total int) (set func(int), done func()) {
	if !e.tty || total < 1 {
		return func(int) {}, func() {}
	}
	p := mpb.NewWithContext(e.ctx, mpb.WithOutput(e.stderr), mpb.WithWidth(40))
	bar := p.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name(name+" "), decor.CountersNoUnit("%d / %d")),
		mpb.AppendDecorators(decor.AverageETA(decor.ET_STYLE_GO)))
	return func(n int) { bar.SetCurrent(int64(n)) }, func() { bar.Abort(false); p.Wait() }
}
