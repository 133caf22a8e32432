#include "textflag.h"

// A position's window gets the products of a pair: VPMADDWD adds both, exactly, in 32 bits.
#define STEP(address, window) \
	VPBROADCASTD address, Y13 \
	VPMADDWD Y12, Y13, Y13    \
	VPADDD   Y13, window, window

// A window is added to the sums of its even lanes and those of its odd ones, as unsigned numbers.
#define FLUSH(window, even, odd) \
	VPBLENDD $0x55, window, Y15, Y13 \
	VPSRLQ   $32, window, window     \
	VPADDQ   Y13, even, even         \
	VPADDQ   window, odd, odd

// func maddAVX2(sums *int64, weights, inputs *int16, stride, pairs, window, blocks int)
TEXT ·maddAVX2(SB), NOSPLIT, $0-56
	MOVQ  sums+0(FP), DI
	MOVQ  inputs+16(FP), DX
	MOVQ  stride+24(FP), R10
	MOVQ  window+40(FP), R12
	MOVQ  blocks+48(FP), R13
	LEAQ  (R10)(R10*2), R11
	VPXOR Y15, Y15, Y15
	VPCMPEQD Y14, Y14, Y14
	VPSRLD $1, Y14, Y14 // 2^31 - 1

block:
	VMOVDQU (DI), Y4
	VMOVDQU 32(DI), Y5
	VMOVDQU 64(DI), Y6
	VMOVDQU 96(DI), Y7
	VMOVDQU 128(DI), Y8
	VMOVDQU 160(DI), Y9
	VMOVDQU 192(DI), Y10
	VMOVDQU 224(DI), Y11
	MOVQ    weights+8(FP), SI
	MOVQ    DX, R8
	MOVQ    pairs+32(FP), BX

window:
	MOVQ    R12, CX
	CMPQ    BX, CX
	CMOVQLT BX, CX // the last one may be short
	SUBQ    CX, BX
	VMOVDQA Y14, Y0
	VMOVDQA Y14, Y1
	VMOVDQA Y14, Y2
	VMOVDQA Y14, Y3

pair:
	VMOVDQU (SI), Y12
	STEP((R8), Y0)
	STEP((R8)(R10*1), Y1)
	STEP((R8)(R10*2), Y2)
	STEP((R8)(R11*1), Y3)
	ADDQ    $32, SI
	ADDQ    $4, R8
	DECQ    CX
	JNZ     pair

	FLUSH(Y0, Y4, Y5)
	FLUSH(Y1, Y6, Y7)
	FLUSH(Y2, Y8, Y9)
	FLUSH(Y3, Y10, Y11)
	TESTQ   BX, BX
	JNZ     window

	VMOVDQU Y4, (DI)
	VMOVDQU Y5, 32(DI)
	VMOVDQU Y6, 64(DI)
	VMOVDQU Y7, 96(DI)
	VMOVDQU Y8, 128(DI)
	VMOVDQU Y9, 160(DI)
	VMOVDQU Y10, 192(DI)
	VMOVDQU Y11, 224(DI)
	ADDQ    $256, DI
	LEAQ    (DX)(R10*4), DX
	DECQ    R13
	JNZ     block
	VZEROUPPER
	RET
