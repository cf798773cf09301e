package gate

// KnownRules returns of how many rules a gate knows the pressure.
func KnownRules(g *Gate) (n int) {
	g.pressures.rules.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}
