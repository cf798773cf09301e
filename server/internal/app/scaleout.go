package app

import (
	"fmt"
	"os"

	"github.com/sluicehq/sluice/server/internal/observe/webhook"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// pressure returns the pressure on a rule, which the gate measures for all edges.
func (a *App) pressure(rule string) float64 { return a.gate.Pressure(rule) }

// openWebhook makes the webhook client, if the configuration has a webhook.
func (a *App) openWebhook() error {
	f := a.file.ScaleOut.Webhook
	if f == nil {
		return nil
	}
	key, err := webhookSecret(f)
	if err != nil {
		return err
	}
	instance, err := os.Hostname()
	if err != nil {
		instance = "" // the message has no instance then
	}
	rules := a.engine.ruleNames
	if len(f.Rules) > 0 {
		rules = func() []string { return f.Rules }
	}
	a.webhook, err = webhook.New(webhook.Options{
		URL: f.URL, Secret: key, Every: f.Every,
		Thresholds: webhook.Thresholds{Above: float64(f.Above), Below: float64(f.Below), For: f.For},
		Rules:      rules, Pressure: a.pressure,
		Instance: instance, Version: a.o.Version, Logger: a.logger,
	})
	if err != nil {
		return fmt.Errorf("scale_out.webhook: %w", err)
	}
	a.metrics.Counters("sluice_webhook_messages_total", "Messages to the webhook by outcome, after all attempts.",
		"outcome", []string{"delivered", "given_up"}, func(outcome string) float64 {
			if outcome == "delivered" {
				return float64(a.webhook.Stats().Delivered)
			}
			return float64(a.webhook.Stats().GivenUp)
		})
	a.metrics.Counter("sluice_webhook_failed_attempts_total", "Failed attempts to send a message to the webhook.",
		func() float64 { return float64(a.webhook.Stats().Failed) })
	return nil
}

// webhookSecret reads the secret that signs messages; it is empty without a webhook.
func webhookSecret(f *webhook.Settings) (string, error) {
	if f == nil {
		return "", nil
	}
	const setting = "scale_out.webhook.secret"
	key, err := secret.Read(setting, f.SecretFile, f.SecretEnv)
	if err != nil {
		return "", err
	}
	if err := webhook.CheckSecret(key); err != nil {
		end := "_env"
		if f.SecretFile != "" {
			end = "_file"
		}
		return "", secret.Mistake(setting+end, err.Error(), "")
	}
	return key, nil
}
