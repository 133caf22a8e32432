package catalogue

// MACs of one inference of a network, including depthwise layers.
func MACs(name string) (float64, error) {
	b, err := layers(Spec{Network: name})
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for i := range b.ops {
		o := &b.ops[i]
		sum += float64(o.m)*float64(o.n)*float64(o.k)*float64(max(1, o.heads)) + o.macs
	}
	return sum, nil
}
