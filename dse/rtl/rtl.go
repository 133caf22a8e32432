// Package rtl holds the constants of hw/rtl that determine cycles. The law (dse/cost) and the machine (dse/machine) use
// them. A test compares those that have a line in the RTL with that line.
package rtl

// Sizes and depths.
const (
	BurstsUnderWay = 16   // per port and direction (axi_read, axi_write, write_ports: MAX_OUT)
	StripeBeats    = 16   // maximum length of a burst with several ports (npu_core: STRIPE)
	PageBytes      = 4096 // no burst crosses a page (axi_read, axi_write: PAGE_BEATS)
	ReadOrder      = 64   // stripes in flight (read_ports: u_order)
	PortBeats      = 64   // wide beats in the queue of one of several ports (read_ports: DEPTH)
	PortStripes    = 8    // stripes in this queue
	WriteOrder     = 32   // stripes in flight (write_ports: u_order)
	WriteQueue     = 16   // wide beats (write_ports: u_queue)
	Products       = 14   // number of products in layer_fetch's checks; a depthwise layer has two more
	PlacesUnderWay = 64   // places, and runs, in flight (act_loader: u_meta, u_place)
	KindsUnderWay  = 32   // requests in flight (weight_fetch: u_kind)
	LayersAhead    = 4    // in weight_fetch (u_layers)
	BiasBeats      = 32   // wide beats of biases that wait for their memory (weight_fetch: BFIFO)
	LatentBytes    = 2048 // bytes of weights that are loaded before activations, unless a 16th of the ring is more (weight_fetch: LATENT)
	ChunkBytes     = 256  // of a request for residuals or weights, at most ChunkBeats (weight_fetch, res_loader: CHUNK)
	ChunkBeats     = 16
	ResChunks      = 16  // requests for residuals in flight (res_loader: CHUNKS)
	ResBeats       = 256 // wide beats in the queue of residuals (res_loader: BEATS)
	DrainQueue     = 8   // groups between the accumulators and the end of the queue after them (drain: QUEUE)
	PoolRoom       = 8   // results of the pool unit, from the first tap until they have left (npu_core: POOL_ROOM)
	PoolGroups     = 64  // channel groups whose columns the pool and the depthwise unit store (npu_core: POOL_GROUPS)
	AvgBits        = 9   // bits of a window's taps up to which one multiplier computes a word of an average (pool_seq: wide_o)
	WordBytes      = 2   // one int16 weight, or the int8 weights of two channels
	BiasBytes      = 4
)

// Pipeline lengths in cycles.
const (
	StartStates = 3 + 7*8 // npu_start's StBegin, layer_fetch's StIdle, StRange and StSlots (7 bits of 8 slots)
	ChainWait   = 3       // minimum by which a pass is longer than its chain (gemm_seq)
	ToArray     = 5       // a row to the array: the read address, and four stages of the buffer
	ChainTail   = 2       // int16 chain without its DSPs, from a row to done_o (pe_array)
	Segment     = 4       // DSPs of an int8 segment in simulation, which has the DSP48E1's (mac_packed)
	ReadStages  = 5       // drain: read of a row to the queue (READ)
	PostStages  = 3       // post; twice as many with curves
	CodeStages  = 26      // requant without DSPs; replaces post in int8
	CurveStages = 5       // curves of post in int8, after CodeStages
	TapResult   = 7       // pool: read address, buffer (4), sum, queue
	TapSums     = 10      // depthwise: the same, plus weights, products and selection
	TapRelease  = 5       // pool_seq: from a tap to the release of its rows
	PoolStages  = 5       // pool: after the first stage (STAGES); in int8 requant's
)

// Paths through several units, in cycles without the DRAM's latency. The machine has them as states. The law uses these
// constants. Only its bands check them, not one by one.
const (
	LayerStart  = 4           // act_loader: StHalf, StRow, StRun from the barrier, the row's last beat in the banks to avail_o
	Turn        = 3           // free_o to act_loader's read address: StHalf, StRow, StRun
	Read        = 3           // spill of axi_read, queue and buffer of read_ports
	Write       = 5           // drain's stages B and C, out_writer, npu_output's closing_q
	Stripes     = 4           // extra cycles of Read and of Write with several ports, for distributing stripes
	Swap        = 1           // extra cycles between swaps, besides the way down the chain and loading
	Visit       = 1           // between two row tiles
	DrainDelay  = ToArray + 2 // last row (gemm_seq, item_end) to drain's StRun, without the time to the sums
	KeptStart   = 2           // gemm_seq's StTile and StRun after the barrier, if the input is on chip
	KeptEnd     = 3           // replaces Write for a last word that stays on chip only
	PoolEnd     = 5           // last tap of a pool (pool_seq) to its last word
	BurstCycles = 1           // cycles of a burst, besides the DRAM's latency and the burst's beats
	FetchStates = 3           // layer_fetch: StRequest, StStatic, StOffer
	OfferNext   = 1           // StOffer with all units ready to StRequest
	OfferRows   = 2           // an offer to act_loader's barrier, without LayerStart: StIdle and StPad, and another StPad per padding row
	OfferPasses = 5           // an offer to weight_fetch's first address (StIdle, StRoom), and the last beat to weight_feed's StFull, less KeptStart
	TakenDRAM   = 4           // drain idle and empty to layers_written_o, without the latency of the write response
	TakenKept   = 2           // the same if the output stays on chip
	TakenPool   = -2          // drain's StPool waits for layers_written_o
)

// Fitted constants: only the law uses them; no test compares them exactly.
const (
	PoolDelay = TapResult + 1 // last tap of a window to its result, without its output
	RingPath  = 6             // free_q to a request (weight_fetch); weight_ring's RAM, its register and output, the read by weight_feed, freed_o to free_q
	ResTaken  = 2             // a chunk's last beat to another chunk's request (res_loader)
)
