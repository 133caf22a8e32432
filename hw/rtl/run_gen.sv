// Generates the DRAM runs (address, elements) of a layer's output, or of its residual, in the order
// in which the drain produces words: row tiles and C tiles in the layer's loop order, sample groups, samples, output rows, and pixels where the
// channels of a C tile are not all there is in DRAM (otherwise a whole output row is one run).
// One run a cycle; done_o pulses when the last run of the layer has been taken.
module run_gen #(
  parameter int unsigned T_C      = 32,
  parameter bit          RESIDUAL = 1'b0,
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned BM = abi_pkg::B_MAX
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic [3:0]       b_act_i,
  input  logic [BM*AW-1:0] slot_addr_i,
  input  logic [31:0]      slot_stride_i,
  input  logic             layer_valid_i,
  output logic             layer_ready_o,
  input  logic [1023:0]    layer_desc_i,
  input  logic [31:0]      layer_fbcb_i,
  output logic             run_valid_o,
  input  logic             run_ready_i,
  output logic [AW-1:0]    run_addr_o,
  output logic [23:0]      run_elems_o,
  output logic             pool_o,        // the layer's words come from the pool unit
  output logic             keep_o,        // the layer's words go to half keep_half_o on chip
  output logic             keep_half_o,
  output logic             local_o,       // and only there
  output logic [23:0]      run_elem_o,    // where on chip: samples without a gap
  output logic             done_o,
  output logic             err_valid_o,   // the tensor leaves its slot
  output logic [31:0]      err_addr_o
);
  typedef enum logic [1:0] {StIdle, StTest, StRun, StError} state_e;
  state_e state_q;

  /* verilator lint_off UNUSEDSIGNAL */
  abi_pkg::desc_t d;
  abi_pkg::fbcb_t f, next_f;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [1023:0] desc_q;
  logic [31:0]   fbcb_q;
  assign d = desc_q;
  assign f = fbcb_q;

  logic           start_q, start_d;      // half in which the layer's input lies
  logic [31:0]    samp_off_q, kept_off;
  assign next_f = layer_fbcb_i;
  assign start_d = next_f.keep_in && !start_q;

  logic [31:0] base, row_bytes;
  logic [15:0] pix;
  if (RESIDUAL) begin : gen_res
    assign base = d.res_offset;
    assign row_bytes = d.res_row_bytes;
    assign pix = d.res_pix;
  end else begin : gen_out
    assign base = d.out_offset;
    assign row_bytes = d.out_row_bytes;
    assign pix = d.out_pix;
  end

  logic [3:0]  b0_q, nb, nb_g, i_q;
  logic [15:0] tc;
  logic        two, group_q, last_g;
  logic [15:0] oh0_q, nr, r_q, ow_q, c0_q, nch;
  // A run that leaves the slot is found before the next is counted, so offsets go no further than a row
  // beyond 2^32; their sum is not cut.
  logic [32:0] tile_off_q, row_off_q, pix_off_q;
  logic [34:0] off;
  logic        is_pool, one_c, whole_row;
  logic        last_ow, last_r, last_i, last_c, last_t, last_b, go, out_of_slot, skip;
  logic [2:0]  slot;

  assign is_pool = d.op != abi_pkg::OP_GEMM;
  assign tc = (f.k == 2'd1) ? (two ? 16'(T_C) : 16'(2 * T_C))
                            : ((f.k == 2'd2 || two) ? 16'(T_C / 2) : 16'(T_C));
  assign two = f.b_r != b_act_i;
  assign nb = ({1'b0, b0_q} + {1'b0, f.tile_b} > {1'b0, f.b_r}) ? f.b_r - b0_q : f.tile_b;
  // group 1 may have fewer samples, or none
  logic [3:0] rest_1;
  assign rest_1 = ({1'b0, b0_q} + {1'b0, f.b_r} >= {1'b0, b_act_i}) ? 4'd0
                                                                   : b_act_i - f.b_r - b0_q;
  assign nb_g = (group_q && rest_1 < nb) ? rest_1 : nb;
  assign last_g = group_q || !two || rest_1 == '0;
  assign nr = (oh0_q + 16'(f.tile_rows) > d.out_h) ? d.out_h - oh0_q : 16'(f.tile_rows);
  assign one_c = is_pool || d.out_c <= tc;
  assign nch = one_c ? d.out_c
                     : ((c0_q + tc > d.out_c) ? d.out_c - c0_q : tc);
  assign whole_row = one_c && pix == d.out_c;
  assign last_ow = whole_row || ow_q + 16'd1 == d.out_w;
  assign last_r = r_q + 16'd1 == nr;
  assign last_i = i_q + 4'd1 == nb_g;
  assign last_c = one_c || c0_q + tc >= d.out_c;
  assign last_t = oh0_q + nr == d.out_h;
  assign last_b = b0_q + nb == f.b_r;

  assign off = 35'(base) + 35'(row_off_q) + 35'(pix_off_q) + 35'({c0_q, 1'b0});
  assign kept_off = samp_off_q + row_off_q[31:0] + pix_off_q[31:0] + {15'b0, c0_q, 1'b0};
  assign run_elem_o = kept_off[24:1];
  assign keep_o = f.keep_out;
  assign keep_half_o = !start_q;
  assign local_o = f.on_chip;
  assign slot = 3'(b0_q + i_q + (group_q ? f.b_r : 4'd0));
  assign run_addr_o = slot_addr_i[slot*AW+:AW] + AW'(off);
  assign run_elems_o = whole_row ? row_bytes[24:1] : 24'(nch);
  assign out_of_slot = off + 35'({run_elems_o, 1'b0}) > 35'(slot_stride_i);
  assign run_valid_o = state_q == StRun && !out_of_slot;
  assign go = run_valid_o && run_ready_i;
  assign layer_ready_o = state_q == StIdle;
  assign pool_o = is_pool;
  assign err_valid_o = state_q == StError;
  assign err_addr_o = off[31:0];
  assign skip = RESIDUAL && !d.residual;
  assign done_o = (state_q == StTest && skip)
                  || (go && last_ow && last_r && last_i && last_g && last_c && last_t && last_b);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      start_q <= 1'b0;
    end else begin
      unique case (state_q)
        StIdle: begin
          desc_q <= layer_desc_i;
          fbcb_q <= layer_fbcb_i;
          b0_q <= '0;
          group_q <= 1'b0;
          oh0_q <= '0;
          i_q <= '0;
          r_q <= '0;
          ow_q <= '0;
          c0_q <= '0;
          tile_off_q <= '0;
          row_off_q <= '0;
          pix_off_q <= '0;
          samp_off_q <= '0;
          if (layer_valid_i) begin
            start_q <= start_d;
            state_q <= StTest;
          end
        end
        StTest: state_q <= skip ? StIdle : StRun;
        StRun: begin
          if (out_of_slot) state_q <= StError;
          if (go) begin
            ow_q <= ow_q + 16'd1;
            pix_off_q <= pix_off_q + 33'({pix, 1'b0});
            if (last_ow) begin
              ow_q <= '0;
              pix_off_q <= '0;
              r_q <= r_q + 16'd1;
              row_off_q <= row_off_q + 33'(row_bytes);
              if (last_r) begin
                r_q <= '0;
                row_off_q <= tile_off_q;
                samp_off_q <= last_i ? '0 : samp_off_q + row_off_q[31:0] + row_bytes;
                i_q <= i_q + 4'd1;
                if (last_i) begin
                  i_q <= '0;
                  group_q <= !last_g;
                  if (last_g && (!f.order || (last_t && last_b))) c0_q <= last_c ? '0 : c0_q + tc;
                  if (last_g && (f.order || last_c)) begin
                    oh0_q <= oh0_q + nr;
                    tile_off_q <= row_off_q + 33'(row_bytes);
                    row_off_q <= row_off_q + 33'(row_bytes);
                    if (last_t) begin
                      oh0_q <= '0;
                      tile_off_q <= '0;
                      row_off_q <= '0;
                      b0_q <= last_b ? '0 : b0_q + nb;
                      if (last_b && last_c) state_q <= StIdle;
                    end
                  end
                end
              end
            end
          end
        end
        StError: ;
        default: state_q <= StIdle;
      endcase
    end
  end

  logic unused;
  assign unused = ^{row_bytes, kept_off[31:25], kept_off[0]};
endmodule
