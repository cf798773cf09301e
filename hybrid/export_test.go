package hybrid

import "math"

// StayCold makes all keys cold, however often they are requested.
func StayCold(s *Store) { s.registry.hotFrom = math.MaxUint64 }

// Limits returns how many limits a store has, and from how many on it looks for some to drop.
func Limits(s *Store) (known, full int) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	return len(s.registry.byLimit), s.registry.full
}
