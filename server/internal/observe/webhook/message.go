package webhook

import (
	"crypto/rand"
	"encoding/json"
	"time"
)

// Type is the type of all messages.
const Type = "sluice.pressure"

// State is whether the pressure is high.
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

// Data is the content of a message.
type Data struct {
	// Instance names the process that measured.
	Instance string `json:"instance"`
	// Changes are the rules whose pressure became high, or no longer is.
	Changes []Change `json:"changes"`
}

// Change is the state of one rule.
type Change struct {
	Rule  string `json:"rule"`
	State State  `json:"state"`
	// Pressure is demand divided by limit, when the message was made.
	Pressure float64 `json:"pressure"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// Reminder means that the state was sent before.
	Reminder bool `json:"reminder,omitempty"`
}

// delivery is a message that is being sent.
type delivery struct {
	id       string
	body     []byte
	rules    int
	attempts int
	next     time.Time // the next attempt
}

func newDelivery(m *Message, now time.Time) (*delivery, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return &delivery{id: "msg_" + rand.Text(), body: body, rules: len(m.Data.Changes), next: now}, nil
}
