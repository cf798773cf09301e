package gate

// Forget drops the pressure on rules that are gone, as when a policy takes the place of
// another one. Without it they are kept until nobody has met them for two windows, and then until
// many are; a window is as long as a limit takes to fill.
func (g *Gate) Forget(gone func(rule string) bool) {
	p := &g.pressures
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules.Range(func(name, _ any) bool {
		if gone(name.(string)) {
			p.rules.Delete(name)
			p.count--
		}
		return true
	})
}
