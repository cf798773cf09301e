package hybrid

import "math"

// StayCold makes all keys cold, however often they are requested.
func StayCold(s *Store) { s.registry.hotFrom = math.MaxUint64 }
