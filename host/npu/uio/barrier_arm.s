#include "textflag.h"

// func storeBarrier(): stores before it are complete, for every observer, before anything after it.
TEXT ·storeBarrier(SB), NOSPLIT, $0-0
	WORD	$0xf57ff04e // dsb st, full system
	RET

// func loadBarrier(): loads after it are not begun before loads before it have ended.
TEXT ·loadBarrier(SB), NOSPLIT, $0-0
	WORD	$0xf57ff05f // dmb sy
	RET
