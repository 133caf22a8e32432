// Memo stores the logits at every exit, by bundle and input.

package soft

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
)

// Memo caches the logits of inputs at every exit. Several devices may share one Memo. The zero value is an empty Memo.
type Memo struct {
	mu sync.Mutex
	m  map[key][]device.ExitResult
}

func (m *Memo) get(k key, compute func() ([]device.ExitResult, error)) ([]device.ExitResult, error) {
	m.mu.Lock()
	e, ok := m.m[k]
	m.mu.Unlock()
	if ok {
		return e, nil
	}
	e, err := compute()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = map[key][]device.ExitResult{}
	}
	m.m[k] = e
	return e, nil
}

// Fill computes the exits of all inputs with a number of workers, and returns them in the order of inputs. If done is
// not nil, Fill calls it with the number of finished inputs. If executor is nil, golden is used.
func (m *Memo) Fill(
	ctx context.Context, b *bundle.Bundle, inputs [][]int16, workers int,
	executor func(*bundle.Bundle) (Executor, error), done func(int),
) ([][]device.ExitResult, error) {
	if executor == nil {
		executor = goldenExecutor
	}
	hash, err := b.Hash()
	if err != nil {
		return nil, err
	}
	x, err := executor(b)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([][]device.ExitResult, len(inputs))
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		next  int
		ready int
	)
	for range max(1, workers) {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(inputs) {
					return
				}
				e, err := m.get(keyOf(hash, inputs[i]), func() ([]device.ExitResult, error) { return all(b, x, inputs[i]) })
				if err != nil {
					cancel(fmt.Errorf("input %d: %w", i, err))
					return
				}
				out[i] = e
				mu.Lock()
				ready++
				if done != nil {
					done(ready)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("compute exits of %d inputs: %w", len(inputs), context.Cause(ctx))
	}
	return out, nil
}
