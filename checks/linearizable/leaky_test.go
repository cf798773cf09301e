package linearizable

import "github.com/sluicehq/sluice"

// leaky is a leaky bucket.
type leaky struct {
	noLease
	now  int64
	work int64 // microseconds until all has left
}

const (
	leakyQueue = 6
	undelayed  = 2
)

func (l leaky) advance(now int64) state {
	l.work = max(0, l.work-(now-l.now))
	l.now = now
	return l
}

func (l leaky) decide(a ask) (sluice.Decision, state) {
	room := (leakyQueue - a.floor) * unit // work ahead of the last unit
	fit := room
	if a.wait > 0 {
		fit = min(fit, undelayed*unit+a.wait)
	}
	remaining := int64(0)
	if l.work <= fit {
		remaining = (fit-l.work)/unit + 1
	}
	own := (a.cost - 1) * unit
	switch ahead := l.work + own; {
	case a.cost == 0:
		return allowed(remaining, 0, l.work), l
	case own > room, a.wait > 0 && own > undelayed*unit+a.wait:
		return never(remaining, l.work), l
	case ahead > fit:
		return limited(remaining, ahead-fit, l.work), l
	default:
		delay := max(0, ahead-undelayed*unit)
		l.work = ahead + unit
		return allowed(remaining-a.cost, delay, l.work), l
	}
}

func (l leaky) cancel(c charge) state {
	if c.cost == 0 || l.now > c.at+c.delay {
		return l
	}
	return l.settle(c, 0)
}

func (l leaky) settle(c charge, actual int64) state {
	if l.work == 0 || l.work != c.reset-(l.now-c.at) {
		return l // all has left, or somebody stands behind
	}
	if more := (actual - c.cost) * unit; more <= 0 {
		l.work = max(0, l.work+more)
	} else {
		l.work = max(l.work, min(l.work+more, (leakyQueue+1)*unit))
	}
	return l
}
