// Package rtl contains the constants of hw/rtl that determine cycles. The law (dse/cost) and the machine (dse/machine)
// use these constants. If a constant is defined in one line of the RTL, a test compares it with this line.
package rtl

// Sizes and depths.
const (
	BurstsUnderWay = 16   // bursts in flight per port and direction (axi_read, axi_write, write_ports: MAX_OUT)
	StripeBeats    = 16   // maximum length of a burst with several ports (npu_core: STRIPE)
	PageBytes      = 4096 // no burst crosses a page (axi_read, axi_write: PAGE_BEATS)
	ReadOrder      = 64   // stripes in flight (read_ports: u_order)
	PortBeats      = 64   // wide beats in the queue of a port, if there are several (read_ports: DEPTH)
	PortStripes    = 8    // stripes in this queue
	WriteOrder     = 32   // stripes in flight (write_ports: u_order)
	WriteQueue     = 16   // wide beats in the queue of a port (write_ports: u_queue)
	Products       = 14   // products in the checks of layer_fetch; a depthwise layer has two more products
	PlacesUnderWay = 64   // places in flight, and runs in flight (act_loader: u_meta, u_place)
	KindsUnderWay  = 32   // requests in flight (weight_fetch: u_kind)
	LayersAhead    = 4    // layers whose biases are requested ahead (weight_fetch: u_layers)
	BiasBeats      = 32   // wide beats of biases that wait for their memory (weight_fetch: BFIFO)
	LatentBytes    = 2048 // bytes of weights loaded before activations, or 1/16 of the ring if larger (weight_fetch: LATENT)
	ChunkBytes     = 256  // bytes of a request for residuals or weights, up to ChunkBeats (weight_fetch, res_loader: CHUNK)
	ChunkBeats     = 16
	ResChunks      = 16  // requests for residuals in flight (res_loader: CHUNKS)
	ResBeats       = 256 // wide beats in the queue of residuals (res_loader: BEATS)
	DrainQueue     = 8   // groups from the accumulators to the end of their queue (drain: QUEUE)
	PoolRoom       = 8   // results of the pool unit in progress, from first tap to output (npu_core: POOL_ROOM)
	PoolGroups     = 64  // channel groups whose columns the pool and the depthwise unit store (npu_core: POOL_GROUPS)
	AvgBits        = 9   // bits of the tap count; with more bits, an average needs two multipliers (pool_seq: wide_o)
	WordBytes      = 2   // one int16 weight, or the int8 weights of two channels
	BiasBytes      = 4
)

// Pipeline lengths in cycles.
const (
	StartStates = 3 + 7*8 // StBegin of npu_start; StIdle, StRange and StSlots of layer_fetch (7 bits of 8 slots)
	ChainWait   = 3       // minimum length of a pass minus length of its chain (gemm_seq)
	ToArray     = 5       // from gemm_seq to the array: the read address, and four stages of the buffer
	ChainTail   = 2       // from a row to done_o, without the DSPs of the int16 chain (pe_array)
	Segment     = 4       // number of DSPs of an int8 segment in simulation, as for the DSP48E1 (mac_packed)
	ReadStages  = 5       // drain: from the read of a row to the queue (READ)
	PostStages  = 3       // stages of post; twice as many with curves
	CodeStages  = 26      // stages of requant without DSPs; it replaces post in int8
	CurveStages = 5       // stages of curves in int8, after CodeStages
	TapResult   = 7       // pool: read address, buffer (4), sum, queue
	TapSums     = 10      // depthwise: as TapResult, plus weights, products and selection
	TapRelease  = 5       // pool_seq: from a tap to the release of its rows
	PoolStages  = 5       // pool: stages after the first stage (STAGES); in int8 CodeStages instead
)

// Paths through several units, in cycles without the latency of the DRAM. The machine models these paths as states, and
// the law uses these constants. No test checks these constants individually. The bands of the law check their
// combined effect.
const (
	LayerStart  = 4           // act_loader: StHalf, StRow and StRun after the barrier; last beat of a row to avail_o
	Turn        = 3           // from free_o to the read address of act_loader: StHalf, StRow, StRun
	Read        = 3           // spill of axi_read, queue and buffer of read_ports
	Write       = 5           // stages B and C of drain, out_writer, closing_q of npu_output
	Stripes     = 4           // additional cycles of Read and of Write if stripes are distributed to several ports
	Swap        = 1           // additional cycles between swaps, after the way down the chain and the loading
	Visit       = 1           // cycles between two row tiles
	DrainDelay  = ToArray + 2 // from the last row (gemm_seq, item_end) to StRun of drain, without the time to the sums
	KeptStart   = 2           // StTile and StRun of gemm_seq after the barrier, if the input is on chip
	KeptEnd     = 3           // instead of Write, if the last word is written only on chip
	PoolEnd     = 5           // from the last tap of a pool (pool_seq) to its last word
	BurstCycles = 1           // cycles of a burst, without the latency of the DRAM and the beats of the burst
	FetchStates = 3           // layer_fetch: StRequest, StStatic, StOffer
	OfferNext   = 1           // from StOffer with all units ready to StRequest
	OfferRows   = 2           // from an offer to the barrier of act_loader: StIdle, StPad; one more StPad per padding row
	OfferPasses = 5           // offer to first address (weight_fetch), plus last beat to StFull (weight_feed), minus KeptStart
	TakenDRAM   = 4           // from the empty drain to layers_written_o, without the latency of the write response
	TakenKept   = 2           // as TakenDRAM, if the output stays on chip
	TakenPool   = -2          // negative, because StPool of drain waits for layers_written_o
)

// Fitted constants. Only the law uses these constants, and no test checks their exact values.
const (
	PoolDelay = TapResult + 1 // from the last tap of a window to its result, without its output
	RingPath  = 6             // free_q to request (weight_fetch); RAM to output (weight_ring); read (weight_feed); freed_o to free_q
	ResTaken  = 2             // from the last beat of a chunk to the request of the next chunk (res_loader)
)
