package gate

// KnownRules returns the number of rules whose pressure a gate measures.
func KnownRules(g *Gate) (n int) {
	g.pressures.rules.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}
