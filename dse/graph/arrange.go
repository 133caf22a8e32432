package graph

import (
	"container/heap"
	"fmt"
	"sort"
)

// Values of Producers for tensors that no node produces.
const (
	inputProducer = -1
	noProducer    = -2
)

// Producers returns the node that produces each tensor. It returns a negative number for a tensor that no node
// produces, such as the network's input.
func (g *Graph) Producers() []int {
	producer := make([]int, len(g.Tensors))
	for i := range producer {
		producer[i] = noProducer
	}
	producer[g.Input] = inputProducer
	for n := range g.Nodes {
		producer[g.Nodes[n].Output] = n
	}
	return producer
}

// LastUse returns the last node that reads each tensor; -1 if no node reads it. For an exit, it returns len(Nodes),
// because the logits are needed until the request is finished.
func (g *Graph) LastUse() []int {
	last := make([]int, len(g.Tensors))
	for i := range last {
		last[i] = -1
	}
	for n := range g.Nodes {
		for _, t := range g.Nodes[n].Reads() {
			last[t] = n
		}
	}
	for _, e := range g.Exits {
		last[e.Tensor] = len(g.Nodes)
	}
	return last
}

// Head reports, for each node, whether the node belongs to a head: only the exit of its own segment needs it. The last
// segment has no later exit, so all its nodes belong to the head.
func (g *Graph) Head() []bool {
	_, head := g.segments(g.Producers())
	return head
}

// Arrange sorts the nodes of a graph into the order that Check requires. It removes unused tensors, and nodes that no
// exit needs. It sorts by segment, with the backbone before the head. Otherwise it does not change the order of the
// nodes. Exits must be in order of depth.
func (g *Graph) Arrange() error {
	if err := g.checkTensors(); err != nil {
		return err
	}
	producer, err := g.checkReferences()
	if err != nil {
		return err
	}
	if err := g.checkExits(producer); err != nil {
		return err
	}
	order, err := g.order(producer)
	if err != nil {
		return err
	}
	segment, head := g.segments(producer)
	kept := order[:0]
	for _, n := range order {
		if segment[n] < len(g.Exits) {
			kept = append(kept, n)
		}
	}
	// No edge leads to an earlier segment, or from a head to the backbone. So a stable sort preserves the order.
	sort.SliceStable(kept, func(i, j int) bool {
		a, b := kept[i], kept[j]
		if segment[a] != segment[b] {
			return segment[a] < segment[b]
		}
		return !head[a] && head[b]
	})
	nodes := make([]Node, len(kept))
	g.Segment = make([]int, len(kept))
	for i, n := range kept {
		nodes[i] = g.Nodes[n]
		g.Segment[i] = segment[n]
	}
	g.Nodes = nodes
	g.compact()
	return nil
}

// compact renumbers the tensors in the order in which they are produced.
func (g *Graph) compact() {
	moved := make([]TensorID, len(g.Tensors))
	tensors, scales := make([]Tensor, 0, len(g.Nodes)+1), map[TensorID]Scale{}
	place := func(t TensorID) {
		moved[t] = TensorID(len(tensors))
		if s, ok := g.Scales[t]; ok {
			scales[moved[t]] = s
		}
		tensors = append(tensors, g.Tensors[t])
	}
	place(g.Input)
	for n := range g.Nodes {
		place(g.Nodes[n].Output)
	}
	for n := range g.Nodes {
		node := &g.Nodes[n]
		inputs := make([]TensorID, len(node.Inputs))
		for i, t := range node.Inputs {
			inputs[i] = moved[t]
		}
		node.Inputs, node.Output = inputs, moved[node.Output]
		if node.Residual != None {
			node.Residual = moved[node.Residual]
		}
	}
	for i := range g.Exits {
		g.Exits[i].Tensor = moved[g.Exits[i].Tensor]
	}
	g.Input, g.Tensors, g.Scales = moved[g.Input], tensors, scales
}

// segments returns, for each node, the first exit that needs the node, or len(Exits) if no exit needs it. The result
// `head` reports whether no later exit needs the node.
func (g *Graph) segments(producer []int) (segment []int, head []bool) {
	segment = make([]int, len(g.Nodes))
	head = make([]bool, len(g.Nodes))
	last := make([]int, len(g.Nodes)) // 1 + the last exit that needs the node
	for n := range segment {
		segment[n] = len(g.Exits)
	}
	for e, exit := range g.Exits {
		stack := []int{producer[exit.Tensor]}
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if n < 0 || last[n] == e+1 {
				continue
			}
			last[n] = e + 1
			segment[n] = min(segment[n], e)
			for _, t := range g.Nodes[n].Reads() {
				stack = append(stack, producer[t])
			}
		}
	}
	for n := range head {
		head[n] = last[n] == segment[n]+1
	}
	return segment, head
}

// order returns a topological order. If several nodes are possible, the node with the smallest index is first.
func (g *Graph) order(producer []int) ([]int, error) {
	waits := make([]int, len(g.Nodes))
	readers := make([][]int, len(g.Nodes))
	ready := &intHeap{}
	for n := range g.Nodes {
		for _, t := range g.Nodes[n].Reads() {
			if p := producer[t]; p >= 0 {
				waits[n]++
				readers[p] = append(readers[p], n)
			}
		}
		if waits[n] == 0 {
			heap.Push(ready, n)
		}
	}
	order := make([]int, 0, len(g.Nodes))
	for ready.Len() > 0 {
		n := heap.Pop(ready).(int)
		order = append(order, n)
		for _, r := range readers[n] {
			if waits[r]--; waits[r] == 0 {
				heap.Push(ready, r)
			}
		}
	}
	if len(order) < len(g.Nodes) {
		for n := range waits {
			if waits[n] > 0 {
				return nil, fmt.Errorf("%w: %s waits for itself or for nodes that do", ErrCycle, g.label(n))
			}
		}
	}
	return order, nil
}

type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *intHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
