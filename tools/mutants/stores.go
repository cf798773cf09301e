package main

// ofStores break what docs/failure-modes.md promises of algorithms, stores and guards.
var ofStores = []mutation{
	{
		"a token bucket admits at most burst + ⌊rate·W⌋", "internal/algo/bucket.go",
		"	if after <= room {\n		*res = Result{Allowed: true,", "	if after <= room+b.Den {\n		*res = Result{Allowed: true,",
		"internal/algo TestBucketBound",
	},
	{
		"a leaky bucket lets ⌊rate·W⌋ + 1 units depart", "internal/algo/leaky.go",
		"		return b.wait(ahead - free)", "		return b.wait(ahead-free) - 1",
		"internal/algo TestLeakyBound",
	},
	{
		"a sliding log admits count units in a period", "internal/algo/log.go",
		"r.time(i) > at-l.Length }), at, false", "r.time(i) > at-l.Length+1 }), at, false",
		"internal/algo TestWindowBounds",
	},
	{
		"a sliding window admits count units in a period", "internal/algo/cells.go",
		"	case int64(used) > room:\n		res.Reason = Limited", "	case int64(used) > room+1:\n		res.Reason = Limited",
		"internal/algo TestWindowBounds",
	},
	{
		"a fixed window admits count units in its window", "internal/algo/window.go",
		"	case need > res.Remaining:\n		res.Reason, res.RetryAfter = Limited, end-req.Now\n		counts",
		"	case need > res.Remaining+1:\n		res.Reason, res.RetryAfter = Limited, end-req.Now\n		counts",
		"internal/algo TestFixedWindowHoldsItsCount",
	},
	{
		"concurrency admits max units at once", "internal/algo/concurrency.go",
		"	if req.Cost > limit || units > limit-req.Cost {", "	if req.Cost > limit || units > limit-req.Cost+1 {",
		"internal/algo TestConcurrencyBound",
	},
	{
		"a silent connection is kept for callers that have time left", "rueidisstore/lane.go",
		"!other && ctx.Err() != nil {\n			l.gaveUp", "!other {\n			l.gaveUp",
		"rueidisstore TestRueidisLeavesSilentConnections",
	},
	{
		"the sliding counter decides as an independent oracle", "internal/algo/counter.go",
		"	return int64(mulDivUp(prev, uint64(c.Length-into), uint64(c.Length)))",
		"	q, _ := mulDiv(prev, uint64(c.Length-into), uint64(c.Length))\n	return int64(q)",
		"checks/laws TestStoresDecideAsTheOracle",
	},
	{
		"a clock that goes back refills nothing", "internal/algo/bucket.go",
		"		return max(missing, b.full), mark, now, true", "		return missing, mark, now, true",
		"internal/algo TestClockSetBackMintsNothing",
	},
	{
		"a denial changes nothing", "internal/algo/bucket.go",
		"	if req.Debit {\n		missing = b.owing(missing, req.Cost)\n		s = State{at, missing | mark}\n		after =",
		"	if req.Debit || req.Cost > 1 {\n		missing = b.owing(missing, req.Cost)\n		s = State{at, missing | mark}\n		after =",
		"internal/algo TestDenialChangesNothing",
	},
	{
		"only a state that equals a fresh one may be forgotten", "internal/algo/bucket.go",
		"	return now >= s.T && b.decay(s.V&^lent, now-s.T) == 0", "	return now >= s.T && b.decay(s.V&^lent, now-s.T) < b.Den",
		"internal/algo TestFreshMayBeForgotten",
	},
	{
		"units that later reservations rely on are not given back", "internal/algo/bucket.go",
		"		if mark != 0 || after >= give {\n			return s\n		}\n		give -= after", "		if mark != 0 || after >= give {\n			return s\n		}\n		give -= after / 2",
		"internal/algo TestBucketBoundWhileManyCancel",
	},
	{
		"units that were used stay used when the numbers of a limit change", "internal/algo/bucket.go",
		"	missing = min(b.carry(from.Pace, missing, base), b.bound)", "	missing = min(b.carry(from.Pace, missing, base)/2, b.bound)",
		"internal/algo TestConvertBucket",
	},
	{
		"a denied client is admitted after RetryAfter, and not a microsecond earlier", "internal/algo/bucket.go",
		"	res.RetryAfter = from.wait(missing-b.fits(from.Pace, min(room+late, bound))) + back",
		"	res.RetryAfter = from.wait(missing-b.fits(from.Pace, min(room+late, bound))) + back + 1",
		"internal/algo TestRetryAfterUnderOtherNumbers",
	},
	{
		"a reservation is ended once", "reservation.go",
		"	r.ended = err == nil || errors.Is(err, ErrUnknownOutcome)", "	r.ended = errors.Is(err, ErrUnknownOutcome)",
		". TestCancelEndsAReservationOnce",
	},
	{
		"an end that failed and changed nothing can be tried again", "reservation.go",
		"	r.ended = err == nil || errors.Is(err, ErrUnknownOutcome)", "	r.ended = true",
		". TestEndsThatFail",
	},
	{
		"two different keys never share a budget", "redisstore/key.go",
		"			b = append(b, \"%25\"...)", "			b = append(b, '%')",
		"redisstore TestKeysAreInjective",
	},
	{
		"with a secret, Redis contains no raw key", "redisstore/key.go",
		"	case len(n.secret) > 0:\n		mac", "	case len(n.secret) > 0 && domain != \"t\":\n		mac",
		"redisstore TestSecretHidesKeys",
	},
	{
		"a slot that fails: if another slot denies, the batch is denied", "redisstore/slot.go",
		"			if !decisions[j].Allowed && !p.rs[j].Shadow {", "			if decisions[j].Allowed && !p.rs[j].Shadow {",
		"redisstore TestDenialsOfSlots",
	},
	{
		"a slot that fails: if another was charged, the outcome is unknown", "redisstore/slot.go",
		"			err = unknown(err)\n		}\n		err = &driver.ShardError", "		}\n		err = &driver.ShardError",
		"redisstore TestErrorsOfSlots",
	},
	{
		"charges of other slots are given back up to a second after the deadline", "redisstore/slot.go",
		"	case <-ctx.Done():\n	}\n	select {\n	case s.late", "	case <-ctx.Done():\n		cancel()\n	}\n	select {\n	case s.late",
		"redisstore TestGivesBackBeyondTheDeadline",
	},
	{
		"the outcome in one slot is unknown: the others give everything back", "redisstore/slot.go",
		"	given := failed == nil && allowed || s.giveBack(ctx, parts)", "	given := failed == nil && (allowed || s.giveBack(ctx, parts))",
		"redisstore TestGivesBackLate",
	},
	{
		"one slot of a batch denies: the charges of the others are given back", "redisstore/slot.go",
		"	given := failed == nil && allowed || s.giveBack(ctx, parts)", "	given := failed == nil || s.giveBack(ctx, parts)",
		"checks/decisions TestClusterKeepsTheContract",
	},
	{
		"Redis decides as memory", "redisstore/scripts/bucket.lua",
		"        lent = lent or beyond(u, f, from[4], 0) -- requests", "        -- requests",
		"checks/decisions TestBucketsEqualMemory",
	},
	{
		"whatever the store does, the decision comes by the deadline", "guard/call.go",
		"	case <-c.ctx.Done():\n	case <-caller.Done():\n	}\n	if len", "	case <-caller.Done():\n	}\n	if len",
		"guard TestDecisionsComeByTheDeadline",
	},
	{
		"calls in flight are capped", "guard/lane.go",
		"	if l.inFlight.Add(1) > int64(s.o.MaxInFlight) {", "	if l.inFlight.Add(1) > int64(s.o.MaxInFlight)+1 {",
		"guard TestInFlight",
	},
	{
		"calls in flight are capped for each shard", "guard/lane.go",
		"	for i := range c.uses {\n		c.uses[i].lane.inFlight.Add(-1)\n	}", "	for i := range min(1, len(c.uses)) {\n		c.uses[i].lane.inFlight.Add(-1)\n	}",
		"guard TestInFlightOfShards",
	},
	{
		"the guard stops calling after ten failures in a row", "guard/breaker.go",
		"	b.failures, b.retry, b.hooks = uint64(o.Failures), o.Retry, h", "	b.failures, b.retry, b.hooks = uint64(o.Failures)+1, o.Retry, h",
		"guard TestOpensOnFailures",
	},
	{
		"failures in a row count, however long ago the first was", "guard/breaker.go",
		"	streak := b.streak.Add(1)\n	if streak < b.failures", "	streak := b.streak.Add(1)\n	if streak <= b.failures",
		"guard TestFailuresInARowCount",
	},
	{
		"a store that is silent opens the breaker", "guard/call.go",
		"		case took >= s.o.Deadline/patience:\n			c.failSilent(ErrLate)", "		case took >= s.o.Deadline:\n			c.failSilent(ErrLate)",
		"guard TestCallersDeadlines",
	},
	{
		"the store decides again after a probe", "guard/breaker.go",
		"	return half + rand.N(b.retry-half)", "	return b.retry + rand.N(b.retry-half) + half*4",
		"guard TestRecoveryIsSeenWithinASecond",
	},
	{
		"deny refuses with a RetryAfter of at least a second", "guard/fallback.go",
		"const leastRetry = time.Second", "const leastRetry = time.Second / 2",
		"guard TestEachFallbackDecidesByItsRule",
	},
	{
		"an overdraw takes its whole cost", "internal/algo/bucket.go",
		"			return b.overdrawn(State{at, min(after, b.bound) | mark}, 0, back, res)", "			return b.overdrawn(State{at, min(room, b.bound) | mark}, 0, back, res)",
		"internal/algo TestEqualsOracle",
	},
	{
		"charges with a hold come back after its time", "redisstore/scripts/holds.lua",
		"    settle_at(kind, p, key, { cost, 0, at, 0, 0, '', unpack(q, 5) }, 0)", "    settle_at(kind, p, key, { cost, 0, at, 0, 0, '', unpack(q, 5) }, cost)",
		"checks/decisions TestRedisKeepsTheContract",
	},
	{
		"abandoned holds leave nothing in memory", "memory/hold.go",
		"	sp.store.bytes.Add(-heldBytes)\n", "",
		"memory TestAbandonedHoldsFreeTheirMemory",
	},
	{
		"a debit is booked by local, also if its batch is denied", "guard/fallback.go",
		"		qs[j].Peek = qs[j].Peek || !charge && !qs[j].Shadow && !qs[j].Debit", "		qs[j].Peek = qs[j].Peek || !charge && !qs[j].Shadow",
		"guard TestEachRequestOfABatchHasItsFallback",
	},
	{
		"a store that panics is a failure", "guard/call.go",
		"			c.err = &PanicError{Value: v, Stack: debug.Stack()}\n		} else", "			c.err = nil\n		} else",
		"guard TestAPanicIsAFailure",
	},
	{
		"a store that ends the goroutine of a call is a failure", "guard/call.go",
		"			c.err = &PanicError{Value: errGoexit, Stack: debug.Stack()}", "			c.err = nil",
		"guard TestAnEndedGoroutineIsAFailure",
	},
	{
		"a caller whose context ends gets the context's error", "guard/call.go",
		"		return false, callerError(ctx, c)", "		return true, callerError(ctx, c)",
		"guard TestCallersContext",
	},
	{
		"a shard that fails leaves the others to the store", "guard/lane.go",
		"		if failed {\n			p.lane.breaker.fail(p.permit, why)\n		} else {\n			p.lane.breaker.succeed(p.permit)\n		}",
		"		_ = failed\n		p.lane.breaker.fail(p.permit, why)",
		"guard TestBatchOfShards",
	},
	{
		"a batch with keys of a failing shard charges all its limits, or none", "guard/split.go",
		"	if !allowed {\n		b.giveBack(ctx)\n	}", "",
		"guard TestSplitBatch",
	},
	{
		"a batch of a failing shard that is denied charges debits", "guard/split.go",
		"		r.Peek = r.Peek || !b.allowed && !r.Shadow && !r.Debit", "		r.Peek = r.Peek || !b.allowed && !r.Shadow",
		"guard TestSplitBatch",
	},
	{
		"a charge ends at the layer that granted it", "guard/lease.go",
		"	case byLocal:\n		r.At ^= localBit\n	case byNobody:\n		r.At ^= nobodyBit\n	}\n	return r\n}", "	case byLocal:\n	case byNobody:\n		r.At ^= nobodyBit\n	}\n	return r\n}",
		"guard TestReservationsAcrossAnOutage",
	},
	{
		"the guard repeats the release of a lease whose outcome is unknown", "guard/ending.go",
		"	if s.leases.end(e, errors.Is(err, sluice.ErrUnknownOutcome), until) && !s.doubts.Start(until, e.again) {", "	if s.leases.end(e, errors.Is(err, sluice.ErrUnknownOutcome), until) {",
		"guard TestGuardReleasesAgain",
	},
	{
		"the state of another program does not open the breaker", "guard/call.go",
		"		s.answered(c, took)\n		return true, err\n	}\n	if ctx.Err()", "		s.fail(c, err, err)\n		return true, err\n	}\n	if ctx.Err()",
		"guard TestForeignStateOpensNothing",
	},
	{
		"one foreign state: the fallback decides about its key only", "guard/store.go",
		"	case down && len(rs) > 1 &&", "	case down && len(rs) > 1000 &&",
		"guard TestForeignStateAmongShadows",
	},
	{
		"N local shares of 1/N together admit no more than the limit", "guard/share.go",
		"		return n * s.Of / s.Parts // no", "		return (n*s.Of + s.Parts - 1) / s.Parts // no",
		"guard TestSharesAddUp",
	},
	{
		"waiting requests are bounded for each key", "gate/wait.go",
		"	case c.keys[at] >= perKey:", "	case c.keys[at] > perKey:",
		"gate TestANoisyKeyDoesNotFillTheQueue",
	},
	{
		"a denied key stays denied when keys fill the table", "memory/stripe.go",
		"		return p.FreshState(e.state, max(0, now-stay)) && p.FreshState(e.state, now)", "		return p.FreshState(e.state, max(0, now-stay)) && p.FreshState(e.state, now) || sp.refused",
		"memory TestDeniedKeyStaysDenied",
	},
	{
		"only states that equal a fresh one are forgotten, also while a table shrinks", "memory/upkeep.go",
		"		if shrinks && sp.spare(e, briefStay, now) {", "		if shrinks {",
		"memory TestOnlyFreshStatesAreForgotten",
	},
	{
		"an idle store becomes small again, also in stripes that nobody visits", "memory/upkeep.go",
		"	if sp == visited || now-sp.nextUpkeep.Load() < unvisited || !sp.mu.TryLock() {", "	if sp == visited || now-sp.nextUpkeep.Load() < 1<<50 || !sp.mu.TryLock() {",
		"memory TestIdleStoreShrinks",
	},
	{
		"limits of the local fallback are bounded", "guard/share.go",
		"	if s.cache == nil || len(s.cache) >= maxScaled {", "	if s.cache == nil {",
		"guard TestScaledLimitsAreKept",
	},
	{
		"the clock of memory follows the wall clock only ahead", "memory/store.go",
		"	if ahead := wall - (anchor + elapsed); ahead > tolerance {", "	if ahead := wall - (anchor + elapsed); ahead > tolerance || ahead < -tolerance {",
		"memory TestClockFollowsForwardOnly",
	},
	{
		"a hybrid process spends nothing of a grant that has ended by either clock", "hybrid/clock.go",
		"func margin(left int64) int64 { return left/128 + int64(time.Millisecond) }", "func margin(left int64) int64 { return 0 }",
		"hybrid TestGrantsEnd",
	},
	{
		"a claim from before a reset makes no request wait", "hybrid/local.go",
		"q.flying && q.resets == e.resets && q.claim.Take == 0", "q.flying && q.claim.Take == 0",
		"hybrid TestResetsDoNotWaitForClaims",
	},
	{
		"servers of two versions share the states in Redis", "redisstore/window.go",
		"	word:   \"sliding\",", "	word:   \"cells\",",
		"checks/decisions TestStatesInRedisKeepTheirBytes",
	},
	{
		"a change that was written in part is taken back", "server/internal/store/statefile/file.go",
		"		if a.file.Truncate(a.at) != nil {", "		if false {",
		"server/internal/store/statefile TestShortWritesLeaveNothing",
	},
}
