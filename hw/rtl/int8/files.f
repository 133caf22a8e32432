// Units of an int8 array, built and tested alone: no array has them yet, so hw/rtl/files.f does not list them.
hw/rtl/int8/mac_packed.sv
hw/rtl/int8/mac_segment.sv
hw/rtl/int8/mul_lut.sv
hw/rtl/int8/requant.sv
hw/rtl/int8/round_even.sv
hw/rtl/int8/weight_pack.sv
hw/xilinx/int8/mac_segment_dsp48e2.sv
