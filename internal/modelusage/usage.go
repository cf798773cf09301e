package modelusage

// Usage is what an answer reports as used, in tokens. The counts are disjoint: their sum is all that was used.
type Usage struct {
	Input       int64 // input, without what came from the cache or went into it
	CachedInput int64 // input that the service read from its cache
	CacheWrite  int64 // input that the service wrote into its cache
	Output      int64 // output, with the reasoning
}
