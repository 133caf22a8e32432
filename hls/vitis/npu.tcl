# The flow of vitis_hls for one configuration: C-simulation of a test vector, synthesis, co-simulation of the RTL
# with the same vector, export. hls/vitis/flow.sh writes what it needs into one folder and calls
#
#   vitis_hls -f npu.tcl FOLDER PART NS STEPS
#
# FOLDER holds src/, include/ (headers, sluice_design.hpp among them), tb.cpp and a.vec; NS is the clock's period;
# STEPS are of csim csynth cosim export.
if {[llength $argv] > 0 && [lindex $argv 0] eq "-f"} { set argv [lrange $argv 2 end] }
if {[llength $argv] < 4} { error "usage: vitis_hls -f npu.tcl FOLDER PART NS STEPS" }
lassign $argv folder part ns
set steps [lrange $argv 3 end]
set flags "-std=c++14 -I$folder/src -I$folder/include"
set tbflags "-std=c++17 -I$folder/src -I$folder/include"
# a project is begun anew only by what makes all of it: csim leaves an earlier call's RTL, cosim and export need it
if {"csynth" in $steps} { open_project -reset npu } else { open_project npu }
set_top sluice_npu
add_files -cflags $flags $folder/src/npu.cpp
add_files -tb -cflags $tbflags $folder/tb.cpp
add_files -tb $folder/a.vec
if {"csynth" in $steps} { open_solution -reset -flow_target vivado solution } else { open_solution -flow_target vivado solution }
set_part $part
create_clock -period $ns -name default
# behind hw's registers: a reset that is low, as everywhere there, and of what controls alone: no memory has a value
# that a start relies on, and to bring one back takes a cycle a word
config_rtl -reset control -reset_level low
# addresses come from registers and have up to 40 bits
config_interface -m_axi_addr64
# the DSPs are the array's, which asks for them (bind_op); every other product is made of LUTs
config_op -impl fabric mul
foreach step $steps {
  switch -- $step {
    csim { csim_design -clean -argv a.vec }
    csynth { csynth_design }
    cosim { cosim_design -rtl verilog -argv a.vec }
    export { export_design -format ip_catalog -rtl verilog -output $folder/sluice_npu.zip }
    default { error "npu.tcl: expected csim, csynth, cosim or export, found $step" }
  }
}
close_solution
close_project
