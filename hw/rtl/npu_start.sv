// Begins and ends a start: releases the units from reset while its layers run, and ends it with one
// pulse of done_o or error_o. If several errors occur in one cycle it selects the reported one, and
// among ports the last. After an error, a soft reset, or watchdog_i cycles without progress, the
// memory ports are flushed first: error_o comes when they have nothing outstanding. The reported
// layer is the first one that is not written, unless the error names its layer.
//
// Units run from two cycles after start_i; done_o and the end of the units' run come one cycle
// after their conditions.
module npu_start #(
  parameter int unsigned N_AXI = 1
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  // control
  input  logic        start_i,
  input  logic        soft_reset_i,
  input  logic [7:0]  first_layer_i,
  input  logic [7:0]  last_layer_i,
  input  logic [31:0] watchdog_i,          // cycles; 0: none
  output logic        busy_o,
  output logic        done_o,
  output logic        error_o,
  output logic [7:0]  err_code_o,          // stable until the next start
  output logic [7:0]  err_layer_o,
  output logic [3:0]  err_port_o,
  output logic [31:0] err_addr_o,
  // units
  output logic        unit_rst_no,
  output logic        go_o,                // the first cycle out of reset
  output logic        flush_o,             // of the memory ports
  input  logic [8:0]  layers_written_i,
  input  logic        computing_i,
  input  logic        weights_idle_i,      // no unit uses a layer's weights
  // layer_fetch
  input  logic        fetch_err_i,
  input  logic [7:0]  fetch_err_code_i,
  input  logic [7:0]  fetch_err_layer_i,
  // addresses outside of the start's area: activations, output, residual
  input  logic        act_err_i,
  input  logic [31:0] act_err_addr_i,
  input  logic        out_err_i,
  input  logic [31:0] out_err_addr_i,
  input  logic        res_err_i,
  input  logic [31:0] res_err_addr_i,
  // weight_feed; its layer counts from the start's first
  input  logic        feed_err_i,
  input  logic [7:0]  feed_err_layer_i,
  // memory ports
  input  logic                rd_idle_i,
  input  logic [N_AXI-1:0]    rd_progress_i,
  input  logic [N_AXI-1:0]    rd_err_i,
  input  logic [N_AXI-1:0]    rd_err_dec_i,
  input  logic [N_AXI*32-1:0] rd_err_addr_i,
  input  logic                wr_idle_i,
  input  logic [N_AXI-1:0]    wr_progress_i,
  input  logic [N_AXI-1:0]    wr_err_i,
  input  logic [N_AXI-1:0]    wr_err_dec_i,
  input  logic [N_AXI*32-1:0] wr_err_addr_i
);
  typedef enum logic [1:0] {StIdle, StBegin, StRun, StFlush} state_e;
  state_e state_q;
  logic [8:0]  layers;
  logic [7:0]  code_q, layer_q;
  logic [31:0] addr_q, quiet_q;
  logic [3:0]  port_q;
  logic        rd_err, rd_dec, wr_err, wr_dec, progress, dog;
  logic [31:0] rd_addr, wr_addr;
  logic [3:0]  rd_port, wr_port;

  assign layers = 9'(last_layer_i) - 9'(first_layer_i) + 9'd1;
  assign unit_rst_no = state_q == StRun;
  assign flush_o = state_q == StFlush;
  assign busy_o = state_q != StIdle;
  assign err_code_o = code_q;
  assign err_layer_o = layer_q;
  assign err_port_o = port_q;
  assign err_addr_o = addr_q;
  assign dog = watchdog_i != '0 && quiet_q >= watchdog_i;

  assign progress = rd_progress_i != '0 || wr_progress_i != '0;
  assign rd_err = |rd_err_i;
  assign wr_err = |wr_err_i;
  always_comb begin
    rd_dec = 1'b0;
    rd_addr = '0;
    rd_port = '0;
    wr_dec = 1'b0;
    wr_addr = '0;
    wr_port = '0;
    for (int unsigned p = 0; p < N_AXI; p++) begin
      if (rd_err_i[p]) begin
        rd_dec = rd_err_dec_i[p];
        rd_addr = rd_err_addr_i[p*32+:32];
        rd_port = 4'(p);
      end
      if (wr_err_i[p]) begin
        wr_dec = wr_err_dec_i[p];
        wr_addr = wr_err_addr_i[p*32+:32];
        wr_port = 4'(p);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    done_o <= 1'b0;
    error_o <= 1'b0;
    go_o <= state_q == StBegin;
    if (!rst_ni) begin
      state_q <= StIdle;
    end else begin
      unique case (state_q)
        StIdle: if (start_i) state_q <= StBegin;
        StBegin: begin
          state_q <= StRun;
          code_q <= abi_pkg::ERR_NONE;
          layer_q <= '0;
          addr_q <= '0;
          port_q <= '0;
          quiet_q <= '0;
          if (soft_reset_i) begin
            code_q <= abi_pkg::ERR_SOFT_RESET;
            state_q <= StFlush;
          end
        end
        StRun: begin
          quiet_q <= (progress || computing_i) ? '0 : quiet_q + 32'd1;
          layer_q <= first_layer_i + 8'(layers_written_i);
          // no layer at all (FIRST = LAST + 1) is layer_fetch's to refuse
          // and errors in weights that no unit uses must still be noticed
          if (layers_written_i == layers && layers != '0 && rd_idle_i && weights_idle_i) begin
            done_o <= 1'b1;
            state_q <= StIdle;
          end
          if (rd_err || wr_err || fetch_err_i || act_err_i || out_err_i || res_err_i || feed_err_i
              || soft_reset_i || dog) begin
            done_o <= 1'b0;
            state_q <= StFlush;
            if (rd_err) begin
              code_q <= rd_dec ? abi_pkg::ERR_READ_DECERR : abi_pkg::ERR_READ_SLVERR;
              addr_q <= rd_addr;
              port_q <= rd_port;
            end else if (wr_err) begin
              code_q <= wr_dec ? abi_pkg::ERR_WRITE_DECERR : abi_pkg::ERR_WRITE_SLVERR;
              addr_q <= wr_addr;
              port_q <= wr_port;
            end else if (fetch_err_i) begin
              code_q <= fetch_err_code_i;
              layer_q <= fetch_err_layer_i;
            end else if (act_err_i || out_err_i || res_err_i) begin
              code_q <= abi_pkg::ERR_DESC_ADDRESS;
              addr_q <= act_err_i ? act_err_addr_i : (out_err_i ? out_err_addr_i : res_err_addr_i);
            end else if (feed_err_i) begin
              code_q <= abi_pkg::ERR_DESC_SHAPE;
              layer_q <= first_layer_i + feed_err_layer_i;
            end else if (soft_reset_i) begin
              code_q <= abi_pkg::ERR_SOFT_RESET;
            end else begin
              code_q <= abi_pkg::ERR_WATCHDOG;
            end
          end
        end
        StFlush: begin
          if (rd_idle_i && wr_idle_i) begin
            error_o <= 1'b1;
            state_q <= StIdle;
          end
        end
        default: state_q <= StIdle;
      endcase
    end
  end
endmodule
