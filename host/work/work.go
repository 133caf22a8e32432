// Package work distributes shards (host/shard) to workers on many machines, over NATS JetStream. A hub publishes the
// shards of a question and collects their results. Workers request shards that they can compute. See the README for the
// protocol.
package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-npu/sluice/host/shard"
)

// Names in JetStream.
const (
	streamName = "SHARDS"
	subject    = "shard."   // shard.QUESTION.I
	beats      = "working." // working.QUESTION: a worker computes a shard; the hub replies "over" if the result exists
	resultsIn  = "results-" // results-QUESTION; the next two names have the same form
	inputsIn   = "inputs-"
	reportsIn  = "reports-"
	nameKey    = "name" // metadata of an object: the name of the result
	workerKey  = "worker"
)

// over is the hub's answer if the worker's shard already has a result.
const over = "over"

// beat is a worker's message that it is computing a shard, or that it cannot compute any shard of a question (Unable).
type beat struct {
	Worker string `json:"worker"`
	Shard  int    `json:"shard,omitempty"`
	Unable string `json:"unable,omitempty"`
	Hub    bool   `json:"hub,omitempty"` // the sender is a hub that checks whether the question already has a hub
}

// short returns an abbreviated question ID, for names of limited length.
func short(q *shard.Question) string { return q.ID()[:16] }

// Needs describes the resources that a shard needs, or the resources of a worker's machine.
type Needs struct {
	Tools  []string // "simulator", "yosys", "board", "gpu", or any other name that hub and worker agree on
	Cores  int
	Memory int // GiB
}

// Meets reports whether the resources of a worker are sufficient for a shard with the needs n.
func (has Needs) Meets(n Needs) bool {
	for _, t := range n.Tools {
		if !slices.Contains(has.Tools, t) {
			return false
		}
	}
	return has.Cores >= n.Cores && has.Memory >= n.Memory
}

// String returns a list of the tools, cores and memory.
func (has Needs) String() string {
	return fmt.Sprintf("%s, %d cores, %d GiB", cmp.Or(strings.Join(has.Tools, ", "), "no tools"), has.Cores, has.Memory)
}

// campaign is a question with its needs, stored in the metadata of the question's consumer.
type campaign struct {
	Question shard.Question
	Needs    Needs
}

func (c *campaign) metadata() (map[string]string, error) {
	text, err := json.Marshal(c)
	return map[string]string{"campaign": string(text)}, err
}

func campaignOf(m map[string]string) (c campaign, err error) {
	if err := json.Unmarshal([]byte(m["campaign"]), &c); err != nil {
		return c, fmt.Errorf("a consumer without a question: %w", err)
	}
	return c, nil
}

// report is a worker's message with the reason why it could not compute a shard.
type report struct {
	Worker string `json:"worker"`
	Why    string `json:"why"`
}

// queue contains the JetStream objects that hub and worker use: the stream of all questions, and the stores of one
// question.
type queue struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	results jetstream.ObjectStore
	inputs  jetstream.ObjectStore
	reports jetstream.KeyValue
}

func create(ctx context.Context, nc *nats.Conn, question string) (*queue, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	q := &queue{js: js}
	var errs [4]error
	q.stream, errs[0] = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{subject + ">"}, Retention: jetstream.WorkQueuePolicy,
	})
	q.results, errs[1] = js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: resultsIn + question})
	q.inputs, errs[2] = js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: inputsIn + question})
	q.reports, errs[3] = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: reportsIn + question})
	return q, opened(errs[:])
}

// find returns the queue of all questions, without stores.
func find(ctx context.Context, nc *nats.Conn) (*queue, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	s, err := js.Stream(ctx, streamName)
	if err != nil {
		return nil, opened([]error{err})
	}
	return &queue{js: js, stream: s}, nil
}

// stores returns the queue with the stores of a question.
func (q queue) stores(ctx context.Context, question string) (*queue, error) {
	var errs [3]error
	q.results, errs[0] = q.js.ObjectStore(ctx, resultsIn+question)
	q.inputs, errs[1] = q.js.ObjectStore(ctx, inputsIn+question)
	q.reports, errs[2] = q.js.KeyValue(ctx, reportsIn+question)
	return &q, opened(errs[:])
}

func opened(errs []error) error {
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("JetStream of the hub: %w", err)
	}
	return nil
}

// withdraw removes a question and all its stored data. Without the question's consumer, workers receive no more shards.
func (q *queue) withdraw(ctx context.Context, question string) error {
	return errors.Join(
		q.stream.DeleteConsumer(ctx, question),
		q.stream.Purge(ctx, jetstream.WithPurgeSubject(subject+question+".>")),
		q.js.DeleteObjectStore(ctx, resultsIn+question),
		q.js.DeleteObjectStore(ctx, inputsIn+question),
		q.js.DeleteKeyValue(ctx, reportsIn+question),
	)
}

// Connect connects to a hub, and reconnects if the connection is lost.
func Connect(url, name string, o ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append([]nats.Option{nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second), nats.RetryOnFailedConnect(true)}, o...)...)
}

// shardOf reads the number of a shard from the subject of a message.
func shardOf(subj string, shards int) (int, error) {
	i, err := strconv.Atoi(subj[strings.LastIndexByte(subj, '.')+1:])
	if err != nil || i < 1 || i > shards {
		return 0, fmt.Errorf("%w: a message about %.100q of %d shards", shard.ErrResult, subj, shards)
	}
	return i, nil
}

// get reads an object. It returns an error if the object has more bytes than the argument "most".
func get(ctx context.Context, from jetstream.ObjectStore, name string, most uint64) ([]byte, *jetstream.ObjectInfo, error) {
	info, err := from.GetInfo(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if info.Size > most {
		return nil, info, fmt.Errorf("%s: %w: %d bytes, at most %d", name, shard.ErrResult, info.Size, most)
	}
	ctx, stop := context.WithTimeout(ctx, patience(info.Size))
	defer stop()
	object, err := from.Get(ctx, name)
	if err != nil {
		return nil, info, err
	}
	defer object.Close()
	text, err := io.ReadAll(io.LimitReader(object, int64(most)+1)) // Size is the writer's value and may be wrong
	if err == nil && uint64(len(text)) != info.Size {
		err = fmt.Errorf("%s: %w: %d bytes or more, expected %d", name, shard.ErrResult, len(text), info.Size)
	}
	return text, info, err
}

// shortest is the time limit for reading an empty object.
var shortest = 10 * time.Second

// patience returns the time limit for reading an object of the given size.
func patience(size uint64) time.Duration {
	return shortest + time.Duration(size)*time.Microsecond // 1 MB/s
}
