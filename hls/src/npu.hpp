// npu.hpp: the kernel's entry, as the shell behind hw's registers and FBCB calls it.
#ifndef SLUICE_HLS_NPU_HPP
#define SLUICE_HLS_NPU_HPP

#include "params.hpp"

// Runs layers first..last for b_act samples and returns how it ended: an error code of hw/abi (NONE
// for success), the layer, and the address (low 32 bits, of a range error). Addresses are in bytes.
// slot_table holds the slot of batch position i at bits SLOT_BITS * i. fbcb is the control block's
// memory, indexed by layer * B_MAX + b_act - 1. The four memories are the same DRAM, indexed by
// beats from address 0. gmem_o writes with strobes, in bursts that the kernel requests itself.
void sluice_npu(npu::layer_index_t first, npu::layer_index_t last, npu::batch_t b_act, npu::addr_t desc_base,
                npu::addr_t weight_base, npu::addr_t slot_base, npu::stride_t slot_stride, npu::slots_t n_slot,
                npu::table_t slot_table, const npu::entry_t fbcb[sluice_abi::L_MAX * sluice_abi::B_MAX], const npu::beat_t *gmem_a,
                const npu::beat_t *gmem_w, const npu::beat_t *gmem_r, hls::burst_maxi<npu::beat_t> gmem_o, npu::err_code_t &err_code,
                npu::err_layer_t &err_layer, npu::err_addr_t &err_addr);

#endif
