// params.hpp: the kernel's sizes. What the design says comes from sluice_design.hpp (generated for one
// configuration of hw/configs by hwconfig -cpp), what hardware and software share from
// sluice_abi.hpp and sluice_limits.hpp (generated from hw/abi/abi.yaml); here is only what follows from both.
#ifndef SLUICE_HLS_PARAMS_HPP
#define SLUICE_HLS_PARAMS_HPP

#include "ap_int.h"
#include "hls_burst_maxi.h"
#include "hls_stream.h"
#include "hls_streamofblocks.h"
#include "sluice_abi.hpp"
#include "sluice_design.hpp"
#include "sluice_limits.hpp"

namespace npu {

using namespace sluice_design;  // T_R, T_P, T_C, N_AXI, AXI_BYTES ... as in hw/configs
namespace hw = sluice_abi;  // not `abi`: the vendor's simulation headers bring a namespace of that name

constexpr int log2_of(int n) { return n <= 1 ? 0 : 1 + log2_of((n + 1) / 2); }
constexpr int bits_of(std::uint32_t mask) { return mask == 0 ? 0 : 1 + bits_of(mask >> 1); }
constexpr bool power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

constexpr int WORD_BYTES = hw::DATA_BITS / 8;
constexpr int BIAS_BYTES = 4;                     // the bias is int32
constexpr int WPB = AXI_BYTES / WORD_BYTES;       // words of a beat
constexpr int BPB = AXI_BYTES / BIAS_BYTES;       // biases of a beat
constexpr int DPB = AXI_BYTES / 4;                // descriptor words of a beat
constexpr int DESC_BEATS = hw::DESC_BYTES / AXI_BYTES;
constexpr int LB = log2_of(NB);                   // NB: lanes of the activation buffer
constexpr int HALF_WORDS = ABUF_WORDS / 2;        // of a bank, for one of two sample groups
constexpr int ABUF = NB * ABUF_WORDS;             // elements of a row tile, at most
constexpr int FH = T_P / 2;                       // lanes of half a PE
constexpr int LANES = 2 * T_P;                    // of a stacked PE, and of two sample groups
constexpr int RING_KEEP = WRING_BEATS * AXI_BYTES - static_cast<int>(hw::RING_SPARE);
constexpr int BIAS_LANES = DRAIN > BPB ? DRAIN : BPB;  // what is read or written in a cycle
constexpr int BIAS_LINES = (C_MAX + BIAS_LANES - 1) / BIAS_LANES + 1;  // a beat may begin in a line and end in the next
constexpr int GROUP_BITS = 16, COUNT_BITS = 8, TAPS_BITS = log2_of(static_cast<int>(hw::AVG_TABLE));  // of what goes with sums through streams
constexpr int SLOT_BITS = bits_of(hw::REG_SLOT_TABLE_MASK);
constexpr int MAX_BATCH = static_cast<int>(hw::B_MAX);
constexpr int MAX_KERNEL = static_cast<int>(mask(hw::DESC_F_K_H));
constexpr int MAX_TAPS = MAX_KERNEL * static_cast<int>(mask(hw::DESC_F_K_W));  // of a window
constexpr int MAX_ROWS = static_cast<int>(mask(hw::DESC_F_IN_H));  // of a tensor
constexpr int LOWEST = -(1 << (hw::DATA_BITS - 1));  // word

static_assert(hw::DATA_BITS == 16, "a DSP multiplies 16 by 16 bits here: other words need another array");
static_assert(T_P >= 2, "T_P: a PE has two halves, so at least two lanes");
static_assert(T_C >= 2 && T_C % 2 == 0, "T_C: PEs are stacked in pairs, so their number must be even");
static_assert(T_R >= 16 && T_R % 2 == 0, "T_R: k = 1/2 halves the rows of an accumulator bank, so it must be even");
static_assert(AXI_BYTES == 8 || AXI_BYTES == 16, "AXI_BYTES: a memory port is 64 or 128 bits wide");
static_assert(power_of_two(NB) && NB >= LANES, "NB: one window of 2 T_P elements must lie in NB neighbouring lanes");
static_assert(NB >= WPB, "NB: a beat's words must go to different lanes in one cycle");
static_assert(NB >= DRAIN, "NB: DRAIN kept words must go to different lanes in one cycle");
static_assert(ABUF_WORDS % 2 == 0, "ABUF_WORDS: two sample groups share a half equally");
static_assert(DRAIN % 2 == 0 && (T_C / 2) % DRAIN == 0, "DRAIN must be even and divide T_C / 2, so that a C tile begins with a whole group");
static_assert(C_MAX % DRAIN == 0, "C_MAX: biases are read in groups of DRAIN");
static_assert(BIAS_LANES % DRAIN == 0, "DRAIN must divide the biases of a beat where it is below them, so that a group lies in one line");
static_assert(hw::DESC_BYTES % AXI_BYTES == 0, "a descriptor must be whole beats");
static_assert(hw::WEIGHT_ALIGN % AXI_BYTES == 0, "weights must begin on a beat");
static_assert(RING_KEEP > 0, "WRING_BEATS: the ring is smaller than what replay cannot use");
static_assert(hw::REG_SLOT_TABLE_COUNT == hw::B_MAX, "the slot table has one entry a batch position");

static_assert(power_of_two(WRING_BEATS), "WRING_BEATS: a place in the ring is a beat's low bits");
static_assert(power_of_two(static_cast<int>(hw::B_MAX)), "B_MAX: a position is masked by B_MAX - 1");
static_assert(static_cast<int>(hw::AVG_TABLE) - 1 < 1 << TAPS_BITS, "AVG_TABLE: the taps of an average do not fit sums_t::taps");
static_assert(DRAIN < 1 << COUNT_BITS, "DRAIN: the words of a group do not fit count");
static_assert(C_MAX / DRAIN <= 1 << GROUP_BITS, "C_MAX: a group of channels does not fit sums_t::group");

using word_t = ap_int<hw::DATA_BITS>;
using acc_t = ap_int<hw::ACC_BITS>;
using beat_t = ap_uint<8 * AXI_BYTES>;
using strobe_t = ap_int<sizeof(beat_t)>;  // a bit a byte, as hls::burst_maxi takes it
using addr_t = ap_uint<hw::ADDR_BITS>;
using table_t = ap_uint<SLOT_BITS * hw::B_MAX>;
// Registers as the kernel takes and gives them.
using layer_index_t = ap_uint<hw::REG_LAYERS_FIRST_W>;
using batch_t = ap_uint<hw::REG_BATCH_B_ACT_W>;
using stride_t = ap_uint<bits_of(hw::REG_SLOT_STRIDE_MASK)>;
using slots_t = ap_uint<bits_of(hw::REG_N_SLOT_MASK)>;
using entry_t = ap_uint<bits_of(hw::REG_FBCB_DATA_MASK)>;
using err_code_t = ap_uint<hw::REG_ERROR_CODE_W>;
using err_layer_t = ap_uint<hw::REG_ERROR_LAYER_W>;
using err_addr_t = ap_uint<bits_of(hw::REG_ERROR_ADDR_MASK)>;
static_assert(hw::REG_LAYERS_FIRST_W == hw::REG_LAYERS_LAST_W, "LAYERS: first and last are layers alike");
static_assert(hw::L_MAX <= 1u << hw::REG_LAYERS_FIRST_W, "LAYERS: a layer does not fit FIRST");
static_assert(hw::L_MAX <= 1u << hw::REG_ERROR_LAYER_W, "ERROR: a layer does not fit LAYER");
static_assert(hw::B_MAX < 1u << hw::REG_BATCH_B_ACT_W, "BATCH: B_MAX does not fit B_ACT");
static_assert(bits_of(hw::REG_FBCB_DATA_MASK) == 32, "FBCB_DATA: an entry is a word");

// What goes through the streams.
struct row_t {  // one row of the Toeplitz matrix: group 1's (s = 2) from lane T_P on; or one tap of a pool
  word_t x[NB];
  ap_uint<1> inside;  // of a pool: the tap lies in the image
};
struct vec_t {  // what one channel's PEs hold in a pass
  word_t w[LANES];
};
struct sums_t {  // up to DRAIN neighbouring channels of one output pixel
  acc_t a[DRAIN];
  ap_uint<GROUP_BITS> group;  // of DRAIN channels, in the layer
  ap_uint<COUNT_BITS> count;
  ap_uint<TAPS_BITS> taps;  // of an average: how many lay in the image
};
struct out_t {
  word_t w[DRAIN];
  ap_uint<COUNT_BITS> count;
};

// Memories that are handed on whole: a row tile, a bank of accumulators (halves, PEs, rows).
typedef word_t tile_t[2][HALF_WORDS][NB];
typedef acc_t bank_t[2][T_C][T_R / 2];
// A tensor that stays on chip from one layer to the next.
typedef word_t kept_t[ABUF_WORDS][NB];

// Depths of the streams. Every stage takes and gives in one order and none waits for two streams of
// which one is filled behind the other, so 2 would do for correctness; they cover what the
// stages are uneven by.
constexpr int ROWS_DEPTH = 16;       // a pass begins again while weights are loaded
constexpr int VECS_DEPTH = 2 * T_C;  // the next pass's weights come while this one's rows go
constexpr int BEATS_DEPTH = 64;      // some bursts of weights, residuals or results
constexpr int BIAS_DEPTH = 16;
constexpr int SUMS_DEPTH = 16;
constexpr int OPEN_WRITES = 16;      // runs of results whose answers are still to come
constexpr int OUT_DEPTH = 2 * (WPB > DRAIN ? WPB : DRAIN);

#ifdef SLUICE_PLAIN_STREAMS
// Headers before 2020.2 have no depth in the type; the pragma says it to synthesis.
template <class T, int DEPTH>
using fifo = hls::stream<T>;
#else
template <class T, int DEPTH>
using fifo = hls::stream<T, DEPTH>;
#endif

}  // namespace npu

#endif
