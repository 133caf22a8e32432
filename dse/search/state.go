package search

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/hw/abi"
)

// ErrState is wrapped by errors about files from which this sweep cannot be resumed.
var ErrState = errors.New("the file cannot resume this sweep")

const (
	stateSchema = "sluice-dse-state/2"
	maxState    = 256 << 20
	// saveEvery is the minimum interval between two writes of the state. An interrupt always writes the state.
	saveEvery = 500 * time.Millisecond
)

// state represents an unfinished sweep on disk. It contains no result, because only a complete sweep has a result.
type state struct {
	Schema    string  `json:"schema"`
	Question  []Param `json:"question"`
	Key       string  `json:"key"` // hash of the searched layers and of the law
	Complete  bool    `json:"complete"`
	Next      int     `json:"next"`
	Of        int     `json:"of"`
	Evaluated int64   `json:"evaluated"`
	Searched  int     `json:"searched"`
	Found     []Point `json:"found"`
}

// key returns a hash of everything else, besides the question, that a result depends on. For the law, the hash includes
// values that the law computes: the cycles of references and of sample entries, and lower bounds.
func (s *sweep) key() string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for i := range s.jobs {
		j := &s.jobs[i]
		_ = enc.Encode([]any{j.p.tp, j.p.tc, j.space, j.groups[0].least, len(j.p.designs)})
		for _, cl := range j.groups[0].classes {
			d := j.p.designs[j.groups[0].designs[0]]
			_ = enc.Encode(cost.Layer(d, cl.Geom, 1, abi.FBCB{BR: 1, TileB: 1, TileRows: 1}).Total)
		}
	}
	for _, r := range s.refs {
		_ = enc.Encode([]any{r.Design, r.Point, r.Infeasible})
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// load reads the progress of an interrupted sweep from its file.
func (s *sweep) load() error {
	if s.o.State == "" {
		return nil
	}
	f, err := os.Open(s.o.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return fmt.Errorf("resume %s: %w", s.o.State, err)
	}
	var st state
	if len(text) > maxState {
		return fmt.Errorf("resume %s: %w: longer than %d bytes", s.o.State, ErrState, maxState)
	}
	if err := json.Unmarshal(text, &st); err != nil {
		return fmt.Errorf("resume %s: %w: %w", s.o.State, ErrState, err)
	}
	switch {
	case st.Schema != stateSchema:
		return fmt.Errorf("resume %s: %w: schema %q, expected %q", s.o.State, ErrState, st.Schema, stateSchema)
	}
	if err := changed(st.Question, s.question()); err != nil {
		return fmt.Errorf("resume %s: %w: %w", s.o.State, ErrState, err)
	}
	switch {
	case st.Key != s.key():
		return fmt.Errorf("resume %s: %w: it searched another network's layers, or by another law of cycles or resources; remove it to begin anew", s.o.State, ErrState)
	case st.Of != len(s.jobs) || st.Next < 0 || st.Next > st.Of || (st.Next%chunk != 0 && st.Next != st.Of) || st.Complete != (st.Next == st.Of):
		return fmt.Errorf("resume %s: %w: %d of %d <T_P, T_C> are done, complete %v", s.o.State, ErrState, st.Next, st.Of, st.Complete)
	}
	for i := range st.Found {
		for b := range st.Found[i].Cycles {
			if len(st.Found[i].Cycles[b]) != s.w.Segments {
				return fmt.Errorf("resume %s: %w: point %d has times of %d segments", s.o.State, ErrState, i, len(st.Found[i].Cycles[b]))
			}
		}
	}
	s.next, s.found = st.Next, st.Found
	s.res.Evaluated, s.res.Searched = st.Evaluated, st.Searched
	for _, p := range s.found {
		s.note(p)
	}
	s.front = Front(s.front)
	if s.o.Progress != nil {
		s.o.Progress(s.next, len(s.jobs))
	}
	return nil
}

// save writes the state atomically: readers read either the old file or the new file.
func (s *sweep) save(now bool) error {
	if s.o.State == "" || (!now && time.Since(s.saved) < saveEvery) {
		return nil
	}
	st := state{
		Schema: stateSchema, Question: s.question(), Key: s.key(), Complete: s.next == len(s.jobs), Next: s.next, Of: len(s.jobs),
		Evaluated: s.res.Evaluated, Searched: s.res.Searched, Found: s.found,
	}
	text, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("save %s: %w", s.o.State, err)
	}
	if err := files.Write(s.o.State, text); err != nil {
		return fmt.Errorf("save %s: %w", s.o.State, err)
	}
	s.saved = time.Now()
	return nil
}
