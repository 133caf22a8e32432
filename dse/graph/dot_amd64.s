#include "textflag.h"

// Lanes are output channels, Y0-Y3 four positions. Products are rounded before they are added, in the
// order of dot, so that the sums are dot's bit for bit.
#define STEP(address, sum) \
	VBROADCASTSS address, Y5 \
	VMULPS       Y4, Y5, Y5  \
	VADDPS       Y5, sum, sum

// func dot4AVX2(acc, x, w *float32, n, stride int)
TEXT ·dot4AVX2(SB), NOSPLIT, $0-40
	MOVQ    acc+0(FP), DI
	MOVQ    x+8(FP), R8
	MOVQ    w+16(FP), SI
	MOVQ    n+24(FP), CX
	MOVQ    stride+32(FP), R10
	LEAQ    (R10)(R10*2), R11
	VMOVUPS 0(DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3

element:
	VMOVUPS (SI), Y4
	STEP((R8), Y0)
	STEP((R8)(R10*1), Y1)
	STEP((R8)(R10*2), Y2)
	STEP((R8)(R11*1), Y3)
	ADDQ    $32, SI
	ADDQ    $4, R8
	DECQ    CX
	JNZ     element

	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VZEROUPPER
	RET
