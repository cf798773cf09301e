package modelusage

// Usage is what an answer reports as used, in tokens. The counts are disjoint: their sum is all that was used.
type Usage struct {
	Input       int64 // input, without what came from the cache or went into it
	CachedInput int64 // input that the service read from its cache
	CacheWrite  int64 // input that the service wrote into its cache
	Output      int64 // output, with the reasoning
}

// The counts that usages have, as indexes of counts.
const (
	inputCount     = iota
	cachedCount    // input from the cache
	writtenCount   // input into the cache
	toolInputCount // input from tools, beside inputCount
	outputCount
	thoughtsCount // reasoning, beside outputCount
	totalCount
	countKinds
)

// counts are the counts of a usage as an answer has them.
type counts struct {
	of   [countKinds]int64
	said uint8 // bits: which counts the answer has
}

// clear makes a count missing.
func (c *counts) clear(kind meaning) {
	c.of[kind] = 0
	c.said &^= 1 << kind
}

// set sets a count.
func (c *counts) set(kind meaning, n int64) {
	c.of[kind] = n
	c.said |= 1 << kind
}

// merge takes over the counts that a later usage has. Usages of streams are cumulative, so the last count of a kind is valid.
func (c *counts) merge(later *counts) {
	for kind, n := range later.of {
		if later.said&(1<<kind) != 0 {
			c.set(meaning(kind), n)
		}
	}
}

// usage returns the counts as disjoint ones. Anthropic's input leaves out what concerns the cache; the input of
// other formats includes what came from it.
func (c *counts) usage(f Format) Usage {
	u := Usage{Input: c.of[inputCount], CachedInput: c.of[cachedCount], CacheWrite: c.of[writtenCount]}
	u.Output = c.of[outputCount] + c.of[thoughtsCount]
	if f == AnthropicMessages {
		return u
	}
	// Some services count reasoning only in the total, and some report only the total of embeddings.
	if rest := max(0, c.of[totalCount]-u.Input-c.of[toolInputCount]-u.Output); c.said&(1<<inputCount) != 0 {
		u.Output += rest
	} else {
		u.Input += rest
	}
	u.CachedInput = min(u.CachedInput, u.Input)
	u.Input += c.of[toolInputCount] - u.CachedInput
	return u
}
