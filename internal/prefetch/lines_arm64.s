#include "textflag.h"

// func Lines(p unsafe.Pointer)
TEXT ·Lines(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	PRFM 64(R0), PLDL1KEEP
	RET
