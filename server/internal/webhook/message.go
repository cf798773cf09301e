package webhook

import (
	"crypto/rand"
	"encoding/json"
	"time"
)

// Type is what all messages say they are.
const Type = "sluice.pressure"

// State says which way the pressure went.
type State string

// The states.
const (
	Above State = "above"
	Below State = "below"
)

// Message is the body of a webhook.
type Message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// Data is what a message tells.
type Data struct {
	// Instance names the process that measured.
	Instance string `json:"instance"`
	// Changes are the rules whose pressure became high or is no longer so.
	Changes []Change `json:"changes"`
}

// Change is one rule.
type Change struct {
	Rule  string `json:"rule"`
	State State  `json:"state"`
	// Pressure is demand divided by limit, when the message was made.
	Pressure float64 `json:"pressure"`
	// Since is when the state was found to be so.
	Since time.Time `json:"since"`
	// Reminder says that this was told before.
	Reminder bool `json:"reminder,omitempty"`
}

// delivery is a message on its way.
type delivery struct {
	id       string
	body     []byte
	rules    int
	attempts int
	next     time.Time // when it is tried again
}

func newDelivery(m *Message, now time.Time) (*delivery, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return &delivery{id: "msg_" + rand.Text(), body: body, rules: len(m.Data.Changes), next: now}, nil
}
