package policyfile

import "github.com/sluicehq/sluice/policy"

// Reserve keeps the last units of each of a rule's limits for some classes.
type Reserve struct {
	// Share is a percentage of each limit: 20%, up to 99%.
	Share Share `yaml:"share"`
	// Units are so many, instead of a share.
	Units int64 `yaml:"units"`
	// For are the names of the classes. Required.
	For []string `yaml:"for"`
}

func (r *Reserve) build(s *source, path string) policy.Reserve {
	p := policy.Reserve{Units: r.Units, For: r.For}
	if r.Share == (Share{}) {
		if r.Units == 0 {
			if !s.at[path] {
				s.follow(path+".share", "is missing", "give a share such as 20%, or units")
			}
			p.Units = 1 // so that nothing else is said of it
		}
		return p
	}
	const percent = 100
	switch {
	case percent*r.Share.Of%r.Share.Parts != 0:
		s.follow(path+".share", r.Share.String()+" is no whole number of percent", "give one such as 20%")
		p.Share, p.Units = 1, 0
	case r.Share.Of == r.Share.Parts:
		s.follow(path+".share", "is all of it", "give 99% or less, or deny other classes by a rule of their own")
		p.Share, p.Units = 1, 0
	default:
		p.Share = int(percent * r.Share.Of / r.Share.Parts)
	}
	return p
}
