package app

import (
	"context"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/server/internal/edge/api"
	"github.com/sluicehq/sluice/server/internal/store/overrides"
)

// book is the book of overrides, as the decision API calls it.
type book struct{ *overrides.Book }

var _ api.Overrides = book{}

// Change makes changes.
func (b book) Change(ctx context.Context, changes []api.Override) ([]bool, error) {
	all := make([]overrides.Override, len(changes))
	for i := range changes {
		all[i] = overrides.Override(changes[i])
	}
	return b.Book.Change(ctx, all)
}

// Get returns the override of a key.
func (b book) Get(ctx context.Context, rule string, k sluice.Key) (api.Override, error) {
	o, err := b.Book.Get(ctx, rule, k)
	return api.Override(o), err
}

// List returns a page of the overrides of a rule.
func (b book) List(ctx context.Context, rule, prefix string, after sluice.Key, most int) (page []api.Override, next sluice.Key, more bool, err error) {
	all, next, more, err := b.Book.List(ctx, rule, prefix, after, most)
	for i := range all {
		page = append(page, api.Override(all[i]))
	}
	return page, next, more, err
}

// Rules returns the rules that have overrides.
func (b book) Rules() []string { return b.Table.Rules() }

// KeptIn says where the overrides are kept.
func (b book) KeptIn() string { return b.Kept }
