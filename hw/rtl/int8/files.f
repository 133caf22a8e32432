// What an int8 NPU has that hw/rtl/files.f does not list: units, and the package with the planned fields. files.sh makes the whole list.
hw/rtl/int8/abi_pkg.sv
hw/rtl/int8/mac_packed.sv
hw/rtl/int8/mac_segment.sv
hw/rtl/int8/mul_lut.sv
hw/rtl/int8/pe_array_int8.sv
hw/rtl/int8/pe_group_int8.sv
hw/rtl/int8/ram_pair.sv
hw/rtl/int8/requant.sv
hw/rtl/int8/round_even.sv
hw/rtl/int8/weight_pack.sv
hw/xilinx/int8/mac_segment_dsp48e2.sv
