package timing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A DSP could use the register of an input that is not constant, a memory the register of a port that has loads.
func TestRegisters(t *testing.T) {
	n := read(t, netlist(
		"DSP48E1 a #AREG=1 #BREG=0 #CREG=0 #MREG=1 #PREG=1 A=20 B=21 C=22 *P=10",
		`DSP48E1 b #AREG=0 #BREG=1 #CREG=0 #MREG=0 #PREG=0 A=20 B=21 C="0" *P=11`,
		"DSP48E1 sum #PREG=1 C=20 *P=23",
		"RAMB36E1 r #DOA_REG=1 #DOB_REG=0 ADDRARDADDR=24 *DOADO=25 *DOBDO=26",
		"RAMB18E1 s #DOA_REG=0 #DOB_REG=0 ADDRARDADDR=24 *DOADO=27 *DOBDO=28",
		"FDRE f *Q=29 D=25 C=1", "FDRE g *Q=30 D=26 C=1", "FDRE h *Q=31 D=28 C=1",
	))
	want := []Registers{
		{"DSP48E1", "AREG", 1, 2, []string{"b_q"}},
		{"DSP48E1", "BREG", 1, 2, []string{"a_q"}},
		{"DSP48E1", "CREG", 0, 2, []string{"a_q", "sum"}},
		{"DSP48E1", "MREG", 1, 2, []string{"b_q"}},
		{"DSP48E1", "PREG", 2, 3, []string{"b_q"}},
		{"RAMB18E1", "OUT", 0, 1, []string{"s.B"}},
		{"RAMB36E1", "OUT", 1, 2, []string{"r.B"}},
	}
	if diff := cmp.Diff(want, n.Registers()); diff != "" {
		t.Error(diff)
	}
	u := read(t, netlist("URAM288 u #OREG_A=1 ADDR_A=20 *DOUT_A=21 *DOUT_B=22 *CAS_OUT_DOUT_A=23", "FDRE f *Q=24 D=21 C=1", "FDRE g *Q=25 D=23 C=1"))
	if diff := cmp.Diff([]Registers{{"URAM288", "OUT", 1, 1, nil}}, u.Registers()); diff != "" {
		t.Error(diff)
	}
}
