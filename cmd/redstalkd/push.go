package main

import (
	"context"
	"crypto/x509"
	"fmt"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/server/webhook"
)

// pushSettings are the settings of pushes to webhooks.
type pushSettings struct {
	allow   *webhook.Allow // nil: nothing is pushed
	secrets string         // a file; "": webhooks are not signed
	ca      string         // a file; "": the system's CAs
	proxy   bool
}

// pushOptions are the flags of pushes to webhooks.
func (s *settings) pushOptions() []*option {
	return []*option{
		{name: "push-allow", value: "LIST", set: s.setPushAllow,
			help: "let tubes push their jobs to these: host names, *.DOMAIN, addresses and networks,\n" +
				"each with or without :PORT, separated by commas; * is every public host"},
		{name: "push-secrets", value: "FILE", set: setNonEmpty(&s.pushes.secrets),
			help: "sign webhooks with the secrets of this file; reread when it changes"},
		{name: "push-ca", value: "FILE", set: setNonEmpty(&s.pushes.ca),
			help: "when pushing, trust the certificates of this file instead of the system's"},
		{name: "push-proxy", set: setBool(&s.pushes.proxy),
			help: "push through the proxies that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name"},
	}
}

func (s *settings) setPushAllow(v string) (err error) {
	s.pushes.allow, err = webhook.ParseAllow(v)
	return err
}

// pushConfig reads the files that pushes need.
func (p *program) pushConfig() (c webhook.Config, err error) {
	c = webhook.Config{Allow: p.pushes.allow, Proxy: p.pushes.proxy, Version: Version, Log: p.log}
	if p.pushes.secrets != "" {
		if c.Secrets, err = p.readPushSecrets(); err != nil {
			return c, failure(exitUsage, "--push-secrets: %w", err)
		}
	}
	if p.pushes.ca != "" {
		if c.CAs, err = readCAs(p.pushes.ca); err != nil {
			return c, failure(exitUsage, "--push-ca: %w", err)
		}
	}
	return c, nil
}

// readPushSecrets reads the secrets that sign webhooks.
func (p *program) readPushSecrets() (s *webhook.Secrets, err error) {
	text, err := access.ReadSecrets(p.pushes.secrets, p.log)
	if err == nil {
		s, err = webhook.ParseSecrets(text)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the secrets for pushes in %s: %w", p.pushes.secrets, err)
	}
	return s, nil
}

// readCAs returns the certificates of a PEM file.
func readCAs(file string) (*x509.CertPool, error) {
	text, err := access.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, nil
}

// mayPush is queue.Config.MayPush.
func (p *program) mayPush() func(url string) bool {
	if p.pushes.allow == nil {
		return nil
	}
	return p.pushes.allow.URL
}

// startPushing starts the webhook dispatcher, if --push-allow is set.
func (p *program) startPushing(q *queue.Queue, c webhook.Config) {
	if p.pushes.allow == nil {
		return
	}
	c.NamedTubes = p.metrics.namedTubes()
	d := webhook.New(q, c)
	p.dispatcher.Store(d)
	p.observer.Pushing(d.Stats)
	if p.pushes.secrets == "" {
		p.log.Info("webhooks are not signed, as there is no --push-secrets")
	}
}

// stopPushing waits for running calls to end, and cancels them when ctx is done. The channel is closed
// when all have ended.
func (p *program) stopPushing(ctx context.Context) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d := p.dispatcher.Load()
		if d == nil {
			return
		}
		if err := d.Close(ctx); err != nil {
			p.log.Warn("pushes were cut off at the end of the grace period", "grace", p.grace)
		}
	}()
	return ended
}

// reloadPush rereads the secrets. A faulty file changes nothing.
func (p *program) reloadPush() {
	d := p.dispatcher.Load()
	if d == nil || p.pushes.secrets == "" {
		return
	}
	s, err := p.readPushSecrets()
	if err != nil {
		p.log.Error("the secrets of pushes stay as they are", "err", err)
		return
	}
	d.SetSecrets(s)
	p.log.Info("the secrets of pushes were read again")
}
