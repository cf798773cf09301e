#include "textflag.h"

// func lines(p unsafe.Pointer)
TEXT ·lines(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	PRFM 64(R0), PLDL1KEEP
	RET
