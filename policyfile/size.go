package policyfile

// Size is a number of bytes, written as a number or with a unit: 512B, 64KiB,
// 64MiB, 1GiB, or kB, MB and GB for powers of a thousand.
type Size int64
