#include "textflag.h"

// Lanes are channels. Y0-Y3 sum the products with the upper bytes of four positions, Y4-Y7 those with
// the lower bytes: VPMADDWD adds a pair's two products, exactly, in 32 bits.
#define STEP(address, sum) \
	VPBROADCASTD address, Y9 \
	VPMADDWD Y8, Y9, Y9      \
	VPADDD   Y9, sum, sum

// 256 x upper + lower, as 64 bits, is added to eight sums.
#define FLUSH(yhi, xhi, ylo, xlo, at) \
	VPMOVSXDQ    xhi, Y8          \
	VPMOVSXDQ    xlo, Y9          \
	VPSLLQ       $8, Y8, Y8       \
	VPADDQ       Y9, Y8, Y8       \
	VPADDQ       at(DI), Y8, Y8   \
	VMOVDQU      Y8, at(DI)       \
	VEXTRACTI128 $1, yhi, xhi     \
	VEXTRACTI128 $1, ylo, xlo     \
	VPMOVSXDQ    xhi, Y8          \
	VPMOVSXDQ    xlo, Y9          \
	VPSLLQ       $8, Y8, Y8       \
	VPADDQ       Y9, Y8, Y8       \
	VPADDQ       (at+32)(DI), Y8, Y8 \
	VMOVDQU      Y8, (at+32)(DI)

// func maddAVX2(sums *int64, weights, hi, lo *int16, stride, pairs int)
TEXT ·maddAVX2(SB), NOSPLIT, $0-48
	MOVQ  sums+0(FP), DI
	MOVQ  weights+8(FP), SI
	MOVQ  hi+16(FP), R8
	MOVQ  lo+24(FP), R9
	MOVQ  stride+32(FP), R10
	MOVQ  pairs+40(FP), CX
	LEAQ  (R10)(R10*2), R11
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7

pair:
	VMOVDQU (SI), Y8
	STEP((R8), Y0)
	STEP((R8)(R10*1), Y1)
	STEP((R8)(R10*2), Y2)
	STEP((R8)(R11*1), Y3)
	STEP((R9), Y4)
	STEP((R9)(R10*1), Y5)
	STEP((R9)(R10*2), Y6)
	STEP((R9)(R11*1), Y7)
	ADDQ    $32, SI
	ADDQ    $4, R8
	ADDQ    $4, R9
	DECQ    CX
	JNZ     pair

	FLUSH(Y0, X0, Y4, X4, 0)
	FLUSH(Y1, X1, Y5, X5, 64)
	FLUSH(Y2, X2, Y6, X6, 128)
	FLUSH(Y3, X3, Y7, X7, 192)
	VZEROUPPER
	RET
