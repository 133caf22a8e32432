// npu.cpp: the kernel. A start is a loop over its layers: the descriptor is fetched and checked, then the
// stages read, compute and write run at the same time, joined by streams.
#include "npu.hpp"

#include "compute.hpp"
#include "read.hpp"
#include "stage.hpp"
#include "write.hpp"

namespace npu {

// One layer. Every stage walks the items independently; stages synchronise only by streams.
static void run_layer(const layer_t l, const beat_t *gmem_a, const beat_t *gmem_w, const beat_t *gmem_r,
                      hls::burst_maxi<beat_t> gmem_o, const kept_t &kept_in, kept_t &kept_out) {
#pragma HLS dataflow
// constant while stages run, and read by all of them; scalars, by value, since other types may have only one reader
#pragma HLS stable variable=l
  hls::stream_of_blocks<tile_t> tiles;
// every lane of a window in one cycle, of both sample groups
#pragma HLS array_partition variable=tiles complete dim=1
#pragma HLS array_partition variable=tiles complete dim=3
// different blocks are written and read at the same time
#pragma HLS bind_storage variable=tiles type=ram_s2p impl=bram
  hls::stream_of_blocks<bank_t> banks;
// every PE adds to both its halves in one cycle
#pragma HLS array_partition variable=banks complete dim=1
#pragma HLS array_partition variable=banks complete dim=2
// accumulators are read and written in the same cycle
#ifdef SLUICE_LUTRAM_BANKS
#pragma HLS bind_storage variable=banks type=ram_s2p impl=lutram
#else
#pragma HLS bind_storage variable=banks type=ram_s2p impl=bram
#endif
  fifo<row_t, ROWS_DEPTH> rows("rows");
  fifo<beat_t, BIAS_DEPTH> biases("biases");
  fifo<beat_t, BEATS_DEPTH> weights("weights");
  fifo<vec_t, VECS_DEPTH> vecs("vecs");
  fifo<sums_t, SUMS_DEPTH> pooled("pooled");
  fifo<sums_t, SUMS_DEPTH> sums("sums");
  fifo<beat_t, BEATS_DEPTH> fetched("fetched");
  fifo<out_t, OUT_DEPTH> residuals("residuals");
  fifo<out_t, OUT_DEPTH> outs("outs");
  fifo<out_t, OUT_DEPTH> local("local");
  fifo<beat_t, BEATS_DEPTH> packed("packed");
#pragma HLS stream variable=rows depth=ROWS_DEPTH
#pragma HLS stream variable=biases depth=BIAS_DEPTH
#pragma HLS stream variable=weights depth=BEATS_DEPTH
#pragma HLS stream variable=vecs depth=VECS_DEPTH
#pragma HLS stream variable=pooled depth=SUMS_DEPTH
#pragma HLS stream variable=sums depth=SUMS_DEPTH
#pragma HLS stream variable=fetched depth=BEATS_DEPTH
#pragma HLS stream variable=residuals depth=OUT_DEPTH
#pragma HLS stream variable=outs depth=OUT_DEPTH
#pragma HLS stream variable=local depth=OUT_DEPTH
#pragma HLS stream variable=packed depth=BEATS_DEPTH
// shift registers, since the part has too little block RAM
#pragma HLS bind_storage variable=rows type=fifo impl=srl
#pragma HLS bind_storage variable=biases type=fifo impl=srl
#pragma HLS bind_storage variable=weights type=fifo impl=srl
#pragma HLS bind_storage variable=vecs type=fifo impl=srl
#pragma HLS bind_storage variable=pooled type=fifo impl=srl
#pragma HLS bind_storage variable=sums type=fifo impl=srl
#pragma HLS bind_storage variable=fetched type=fifo impl=srl
#pragma HLS bind_storage variable=residuals type=fifo impl=srl
#pragma HLS bind_storage variable=outs type=fifo impl=srl
#pragma HLS bind_storage variable=local type=fifo impl=srl
#pragma HLS bind_storage variable=packed type=fifo impl=srl
  SLUICE_REGION;
  SLUICE_STAGE(load_rows(l, gmem_a, kept_in, tiles));
  SLUICE_STAGE(form_rows(l, tiles, rows));
  SLUICE_STAGE(fetch_weights(l, gmem_w, biases, weights));
  SLUICE_STAGE(feed_weights(l, weights, vecs));
  SLUICE_STAGE(multiply(l, rows, vecs, banks, pooled));
  SLUICE_STAGE(drain(l, banks, pooled, sums));
  SLUICE_STAGE(fetch_residual(l, gmem_r, fetched));
  SLUICE_STAGE(cut_residual(l, fetched, residuals));
  SLUICE_STAGE(finish(l, biases, sums, residuals, outs));
  SLUICE_STAGE(keep_out(l, kept_out, outs, local));
  SLUICE_STAGE(pack_out(l, local, packed));
  SLUICE_STAGE(write_out(l, gmem_o, packed));
}

}  // namespace npu

void sluice_npu(npu::layer_index_t first, npu::layer_index_t last, npu::batch_t b_act, npu::addr_t desc_base,
                npu::addr_t weight_base, npu::addr_t slot_base, npu::stride_t slot_stride, npu::slots_t n_slot,
                npu::table_t slot_table, const npu::entry_t fbcb[sluice_abi::L_MAX * sluice_abi::B_MAX], const npu::beat_t *gmem_a,
                const npu::beat_t *gmem_w, const npu::beat_t *gmem_r, hls::burst_maxi<npu::beat_t> gmem_o, npu::err_code_t &err_code,
                npu::err_layer_t &err_layer, npu::err_addr_t &err_addr) {
  using namespace npu;
// started and ended by hw's register block
#pragma HLS interface mode=ap_ctrl_hs port=return
// registers that do not change during a start
#pragma HLS interface mode=ap_none port=first
#pragma HLS interface mode=ap_none port=last
#pragma HLS interface mode=ap_none port=b_act
#pragma HLS interface mode=ap_none port=desc_base
#pragma HLS interface mode=ap_none port=weight_base
#pragma HLS interface mode=ap_none port=slot_base
#pragma HLS interface mode=ap_none port=slot_stride
#pragma HLS interface mode=ap_none port=n_slot
#pragma HLS interface mode=ap_none port=slot_table
// hw/rtl/fbcb.sv answers a cycle after the address
#pragma HLS interface mode=ap_memory port=fbcb storage_type=ram_1p latency=1
// addresses are absolute (offset=off); depth is the size of co-simulation's memories, from address 0
#pragma HLS interface mode=m_axi port=gmem_a bundle=a offset=off depth=COSIM_BEATS max_read_burst_length=MAX_BURST num_read_outstanding=16 latency=DRAM_LATENCY
#pragma HLS interface mode=m_axi port=gmem_w bundle=w offset=off depth=COSIM_BEATS max_read_burst_length=MAX_BURST num_read_outstanding=16 latency=DRAM_LATENCY
#pragma HLS interface mode=m_axi port=gmem_r bundle=r offset=off depth=COSIM_BEATS max_read_burst_length=MAX_BURST num_read_outstanding=16 latency=DRAM_LATENCY
#pragma HLS interface mode=m_axi port=gmem_o bundle=o offset=off depth=COSIM_BEATS max_write_burst_length=MAX_BURST num_write_outstanding=OPEN_WRITES latency=DRAM_LATENCY
#pragma HLS interface mode=ap_vld port=err_code
#pragma HLS interface mode=ap_vld port=err_layer
#pragma HLS interface mode=ap_vld port=err_addr
  // not static: a reset would have to restore initial values word by word
  kept_t kept_in, kept_out;
// NB lanes in one cycle
#pragma HLS array_partition variable=kept_in complete dim=2
#pragma HLS array_partition variable=kept_out complete dim=2
#pragma HLS bind_storage variable=kept_in type=ram_s2p impl=bram
#pragma HLS bind_storage variable=kept_out type=ram_s2p impl=bram

  fault_t fault = {hw::ERR_NONE, 0};
  const int batch = static_cast<int>(b_act);
  if (first > last) {
    fault.code = hw::ERR_LAYER_RANGE;
  } else if (batch == 0 || batch > MAX_BATCH) {
    fault.code = hw::ERR_BATCH_RANGE;
  }
slots:
  for (int i = 0; i < MAX_BATCH; i++) {
#pragma HLS pipeline II=1
    const u32 slot = slot_at(slot_table, i);
    if (i < batch && fault.code == hw::ERR_NONE) {
      if (slot >= static_cast<u32>(n_slot)) fault.code = hw::ERR_SLOT_RANGE;
    others:
      for (int j = 0; j < MAX_BATCH; j++) {
#pragma HLS unroll
        if (j < i && slot_at(slot_table, j) == slot) fault.code = hw::ERR_SLOT_RANGE;
      }
    }
  }

  kept_state_t kept = {false, 0, 0, 0};
  int layer = static_cast<int>(first);
layers:
  for (int n = 0; n < static_cast<int>(hw::L_MAX); n++) {
#pragma HLS loop_tripcount max=hw::L_MAX
    if (fault.code != hw::ERR_NONE) break;
    u32 desc[hw::DESC_WORDS];
// decoded in one step
#pragma HLS array_partition variable=desc complete dim=0
    const u64 at = beat_of(static_cast<u64>(desc_base) + static_cast<u64>(layer) * hw::DESC_BYTES);
  descriptor:
    for (int b = 0; b < DESC_BEATS; b++) {
// one burst
#pragma HLS pipeline II=1
      const beat_t beat = gmem_w[at + b];
    parts:
      for (int i = 0; i < DPB; i++) {
#pragma HLS unroll
        desc[b * DPB + i] = beat.range(32 * i + 31, 32 * i).to_uint();
      }
    }
    const u32 entry = fbcb[layer * MAX_BATCH + batch - 1].to_uint();
    layer_t l = layer_t();
    fault = decode(desc, entry, batch, static_cast<u64>(weight_base), static_cast<u32>(slot_stride), kept,
                   layer == static_cast<int>(last), l);
    if (fault.code != hw::ERR_NONE) break;
    l.slot_base = static_cast<u64>(slot_base);
    l.slot_stride = static_cast<u32>(slot_stride);
    l.slots = slot_table;
    run_layer(l, gmem_a, gmem_w, gmem_r, gmem_o, kept_in, kept_out);
    kept.there = l.keep_out;
    kept.h = l.out_h;
    kept.w = l.out_w;
    kept.c = l.out_c;
    if (l.keep_out) {
      // the next layer reads the memory that this layer wrote; a memory may have one writer and one reader
    carry:
      for (int i = 0; i < ABUF_WORDS; i++) {
#pragma HLS pipeline II=1
      lanes:
        for (int b = 0; b < NB; b++) {
#pragma HLS unroll
          kept_in[i][b] = kept_out[i][b];
        }
      }
    }
    if (layer == static_cast<int>(last)) break;
    layer++;
  }
  err_code = fault.code;
  err_layer = fault.code == hw::ERR_NONE ? 0 : layer;
  err_addr = fault.address;
}
