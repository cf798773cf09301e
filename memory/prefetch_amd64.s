#include "textflag.h"

// func prefetch(sl *slot)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVQ sl+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	RET
