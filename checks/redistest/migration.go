package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Slot returns the slot of a key, by its hash tag if it has one.
func (c *Cluster) Slot(ctx context.Context, key string) (int, error) {
	running := c.running()
	if len(running) == 0 {
		return 0, errors.New("redistest: no node of the cluster runs")
	}
	slot, err := running[0].Int(ctx, "CLUSTER", "KEYSLOT", key)
	return int(slot), err
}

// MigrateSlot moves a slot with its keys from its owner to another master, while both
// serve it, and returns when the masters know the new owner.
func (c *Cluster) MigrateSlot(ctx context.Context, slot int, to *Server) error {
	m, err := c.BeginMigration(ctx, slot, to)
	if err != nil {
		return err
	}
	for {
		moved, err := m.Move(ctx, 100)
		if err != nil {
			return err
		}
		if moved == 0 {
			return m.End(ctx)
		}
	}
}

// A Migration is a slot on its way from one master to another. Until End, the old owner
// answers for keys that it has, and redirects callers for others.
type Migration struct {
	From, To *Server

	c    *Cluster
	slot string
}

// BeginMigration opens a slot at its owner and at the master it is to go to.
func (c *Cluster) BeginMigration(ctx context.Context, slot int, to *Server) (*Migration, error) {
	from, err := c.Owner(ctx, slot)
	if err != nil {
		return nil, err
	}
	if from == to {
		return nil, fmt.Errorf("redistest: slot %d is there already", slot)
	}
	m := &Migration{From: from, To: to, c: c, slot: strconv.Itoa(slot)}
	if _, err := to.Do(ctx, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", c.id(from)); err != nil {
		return nil, err
	}
	if _, err := from.Do(ctx, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", c.id(to)); err != nil {
		return nil, err
	}
	return m, nil
}

// Move moves at most n keys, and returns how many there were to move.
func (m *Migration) Move(ctx context.Context, n int) (moved int, err error) {
	v, err := m.From.Do(ctx, "CLUSTER", "GETKEYSINSLOT", m.slot, strconv.Itoa(n))
	if err != nil {
		return 0, err
	}
	list, _ := v.([]any)
	if len(list) == 0 {
		return 0, nil
	}
	const milliseconds = "5000"
	args := []string{"MIGRATE", "127.0.0.1", m.To.ports.plain, "", "0", milliseconds}
	if m.To.opts.acl != nil {
		args = append(args, "AUTH2", ownUser, ownPass)
	}
	args = append(args, "KEYS")
	for _, key := range list {
		args = append(args, fmt.Sprint(key))
	}
	_, err = m.From.Do(ctx, args...)
	return len(list), err
}

// End gives the slot to its new owner, and returns when all nodes that run know it.
// Keys that were not moved would be lost: move them first, until there are none.
func (m *Migration) End(ctx context.Context) error {
	masters, err := m.c.Masters(ctx)
	if err != nil {
		return err
	}
	// The new owner must know first: the old one would else send callers to a
	// node that sends them back.
	masters = slices.DeleteFunc(masters, func(s *Server) bool { return s == m.From || s == m.To })
	for _, s := range append([]*Server{m.To, m.From}, masters...) {
		if _, err := s.Do(ctx, "CLUSTER", "SETSLOT", m.slot, "NODE", m.c.id(m.To)); err != nil {
			return err
		}
	}
	return m.c.WaitOK(ctx)
}
