// Package rtl has the numbers of hw/rtl that cycles follow from. The law (dse/cost) and the machine (dse/machine) count with
// them. A test holds those that a line of the RTL has to that line.
package rtl

// Sizes and depths.
const (
	BurstsUnderWay = 16   // on a port in a direction (axi_read, axi_write, write_ports: MAX_OUT)
	StripeBeats    = 16   // of a burst at most, where several ports share (npu_core: STRIPE)
	PageBytes      = 4096 // that no burst crosses (axi_read, axi_write: PAGE_BEATS)
	ReadOrder      = 64   // stripes under way (read_ports: u_order)
	PortBeats      = 64   // wide beats that there is room for in the queue of one of several ports (read_ports: DEPTH)
	PortStripes    = 8    // and stripes
	WriteOrder     = 32   // (write_ports: u_order)
	WriteQueue     = 16   // wide beats (write_ports: u_queue)
	Products       = 14   // of layer_fetch's checks; of a depthwise layer two more
	PlacesUnderWay = 64   // and runs (act_loader: u_meta, u_place)
	KindsUnderWay  = 32   // requests (weight_fetch: u_kind)
	LayersAhead    = 4    // of weight_fetch (u_layers)
	BiasBeats      = 32   // wide beats of biases that wait for their memory (weight_fetch: BFIFO)
	LatentBytes    = 2048 // of weights on chip below which they come before activations, at least a 16th of the ring (weight_fetch: LATENT)
	ChunkBytes     = 256  // in which residuals and weights are asked for, at most ChunkBeats (weight_fetch, res_loader: CHUNK)
	ChunkBeats     = 16
	ResChunks      = 16  // of residuals under way (res_loader: CHUNKS)
	ResBeats       = 256 // wide beats of residuals that lie ready (res_loader: BEATS)
	DrainQueue     = 8   // groups on their way from the accumulators and in the queue behind it (drain: QUEUE)
	PoolRoom       = 8   // results of the pool unit, from the first tap until they leave (npu_core: POOL_ROOM)
	PoolGroups     = 64  // channel groups of which the pool and the depthwise unit remember columns (npu_core: POOL_GROUPS)
	AvgBits        = 9   // of a window's taps, up to which one multiplier makes a word of an average (pool_seq: wide_o)
	WordBytes      = 2   // a weight of int16, or those of two channels of int8
	BiasBytes      = 4
)

// Registers in a row, in cycles.
const (
	StartStates = 3 + 7*8 // npu_start's StBegin, layer_fetch's StIdle, StRange and StSlots (7 bits of 8 slots)
	ChainWait   = 3       // gemm_seq: a pass is longer than its chain by so much at least
	ToArray     = 5       // a row to the array: the read address, four of the buffer
	ChainTail   = 2       // of int16's chain, beside its DSPs, from a row to done_o (pe_array)
	Segment     = 4       // DSPs of a segment of int8 as it is simulated, of DSP48E1 (mac_packed)
	ReadStages  = 5       // drain: a row's read to the queue (READ)
	PostStages  = 3       // of post, with curves twice as many
	CodeStages  = 26      // of requant, all without a DSP; of int8 in place of post's
	CurveStages = 5       // of post for curves, of int8 behind that
	TapResult   = 7       // pool: read address, buffer (4), sum, queue
	TapSums     = 10      // depthwise: the same, and weights, products and choice
	TapRelease  = 5       // pool_seq: a tap to its rows' release
	PoolStages  = 5       // pool: behind the first (STAGES); of int8 requant's
)

// Paths through several units, in cycles beside the DRAM's latency. The machine has them by its states; the law counts with these,
// by the registers named, and nothing but its bands holds them one by one.
const (
	LayerStart  = 4           // act_loader: StHalf, StRow, StRun from the barrier, the row's last beat in the banks to avail_o
	Turn        = 3           // free_o to act_loader's read address: StHalf, StRow, StRun
	Read        = 3           // spill of axi_read, queue and buffer of read_ports
	Write       = 5           // drain's stages B and C, out_writer, npu_output's closing_q
	Stripes     = 4           // more of either where stripes are dealt to several ports
	Swap        = 1           // from a swap to the next beside its way down the chain and loading
	Visit       = 1           // between two row tiles
	DrainDelay  = ToArray + 2 // last row (gemm_seq, item_end) to drain's StRun, beside the sums
	KeptStart   = 2           // gemm_seq's StTile and StRun from the barrier, where the input is on chip
	KeptEnd     = 3           // of a last word that stays on chip only, in place of Write
	PoolEnd     = 5           // last tap of a pool (pool_seq) to its last word
	BurstCycles = 1           // of a burst beside the DRAM's latency and its beats
	FetchStates = 3           // layer_fetch: StRequest, StStatic, StOffer
	OfferNext   = 1           // StOffer with all units ready to StRequest
	OfferRows   = 2           // an offer to act_loader's barrier, beside LayerStart: StIdle and StPad; StPad once more for each row of padding
	OfferPasses = 5           // an offer to weight_fetch's first address (StIdle, StRoom), the last beat to weight_feed's StFull, less KeptStart
	TakenDRAM   = 4           // drain idle and empty so long before layers_written_o, beside the answer's latency
	TakenKept   = 2           // the same where the output stays on chip
	TakenPool   = -2          // drain's StPool waits for layers_written_o
)

// Fitted.
const (
	PoolDelay = TapResult + 1 // last tap of a window to its result, beside giving it out
	RingPath  = 6             // free_q to a request (weight_fetch), weight_ring's RAM, its register and output, taken by weight_feed, freed_o to free_q
	ResTaken  = 2             // from one chunk's last beat to another's request (res_loader)
)
