package main

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/resource"
)

// A register is attributed by its name, a LUT by the cells that it drives, through other LUTs and carries.
func TestUnits(t *testing.T) {
	const netlist = `module npu_top(clk_i, m_o);
  INV _01_ (
    .I(\u_regs.a_q[0] ),
    .O(_x_)
  );
  LUT6 #(
    .INIT(64'h0000000000000001)
  ) _02_ (
    .I0(_x_),
    .I1(1'h0),
    .O(_y_)
  );
  CARRY4 _03_ (
    .CI(1'h0),
    .CO({ _c3_, _c2_, _c1_, _c0_ }),
    .DI(4'h0),
    .O({ _d3_, _d2_, _d1_, _d0_ }),
    .S({ 3'h0, _y_ })
  );
  FDRE _04_ (
    .C(clk_i),
    .D(_d0_),
    .Q(\u_core.u_pool.acc_q[0] )
  );
  FDRE _05_ (
    .C(clk_i),
    .D(\u_core.u_pool.acc_q[0] ),
    .Q(\u_regs.a_q[0] )
  );
  SRL16E _06_ (
    .D(\u_regs.a_q[0] ),
    .Q(_z_)
  );
  RAM32M \u_core.u_act.mem.0.0  (
    .DIA(_z_),
    .DOA(_o_)
  );
  LUT1 _07_ (
    .I0(_o_),
    .O(m_o)
  );
  LUT2 _08_ (
    .I0(_o_),
    .O(\u_core.busy )
  );
endmodule
`
	got, err := units(strings.NewReader(netlist))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]resource.Cells{
		"pool": {LUT: 2, FF: 1}, "regs": {FF: 1}, "act": {SRL: 1}, "core": {LUT: 2},
	}
	if !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	// cells between units count with the unit after them; a cell of an unknown unit is an error
	got, err = units(strings.NewReader(strings.ReplaceAll(netlist, "u_core.u_pool", "u_core.u_words")))
	if err != nil || got["out"] != want["pool"] {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = units(strings.NewReader(strings.ReplaceAll(netlist, "u_core.u_pool", "u_core.u_start")))
	if sum := (resource.Cells{LUT: 4, FF: 1}); err != nil || got["core"] != sum {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := units(strings.NewReader(strings.ReplaceAll(netlist, "u_core.u_pool", "u_core.u_pond"))); !errors.Is(err, resource.ErrRuns) || !strings.Contains(err.Error(), "u_pond") {
		t.Errorf("an instance that the law does not know: %v", err)
	}
}
