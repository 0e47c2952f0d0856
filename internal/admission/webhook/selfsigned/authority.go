// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package selfsigned

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// The periods of the synchronization, after an error and otherwise. syncPeriod is much
// shorter than Settle, so that all replicas and configurations have an authority in time.
const (
	retryPeriod = 2 * time.Second
	syncPeriod  = 5 * time.Minute
)

// The keys of the Secret, in addition to those of kubernetes.io/tls.
const (
	authoritiesKey  = "ca.crt"
	authorityKeyKey = "ca.key"
)

// Config configures an [Authority].
type Config struct {
	Core          rest.Interface // client for Secrets; required
	Registrations rest.Interface // client for the two kinds of webhook configurations; required
	Namespace     string         // of the Secret and of the Service
	Secret        string
	Service       string
	Configuration string // name of both configurations; one that does not exist is ignored
	Logger        *slog.Logger
}

// Authority keeps the certificate of a replica. It has none before Run has read or created
// the Secret.
type Authority struct {
	cfg   Config
	state state // of the last synchronization without an error; for sync only

	mu     sync.Mutex
	served *tls.Certificate
	err    error // of the last synchronization
}

// New returns an Authority. It has no certificate before Run.
func New(c Config) *Authority {
	return &Authority{cfg: c, err: errors.New("certificate not read yet")}
}

// Current returns the certificate to serve, or nil if there is none. The error is set if the
// server is not ready.
func (a *Authority) Current() (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.served == nil:
		return nil, a.err
	case time.Now().After(a.served.Leaf.NotAfter):
		return a.served, fmt.Errorf("certificate expired on %v: %w", a.served.Leaf.NotAfter, a.err)
	}
	return a.served, nil // valid, even if the last synchronization failed
}

// Run keeps the Secret, the configurations and the certificate up to date until ctx is done.
func (a *Authority) Run(ctx context.Context) error {
	logged := ""
	for {
		err := a.sync(ctx)
		wait := syncPeriod
		if err != nil {
			wait = retryPeriod
			if ctx.Err() == nil && err.Error() != logged {
				logged = err.Error()
				a.cfg.Logger.Warn("cannot update the certificate, retrying", "error", err)
			}
		} else {
			logged = ""
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// sync updates the Secret, the configurations and the certificate, in this order: the API
// server must trust the authority before the certificate is served. If a step fails, the
// previous certificate is served.
func (a *Authority) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s, err := a.updateSecret(ctx)
	var c tls.Certificate
	if err == nil {
		err = errors.Join(
			a.publish(ctx, "validatingwebhookconfigurations", s.Authorities),
			a.publish(ctx, "mutatingwebhookconfigurations", s.Authorities))
	}
	if err == nil {
		c, err = tls.X509KeyPair(s.Certificate, s.Key)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err = err; err != nil {
		return err
	}
	if a.served == nil || !bytes.Equal(c.Leaf.Raw, a.served.Leaf.Raw) {
		a.cfg.Logger.Info("certificate loaded", "names", c.Leaf.DNSNames, "until", c.Leaf.NotAfter)
	}
	a.served, a.state = &c, s
	return nil
}

// updateSecret returns the state in the Secret, and updates it if necessary. Of several
// replicas that do so one succeeds; the others read its state at the next synchronization.
// A Secret that was deleted or damaged gets the state that is served: with a new authority
// the API server would trust the other replicas only after their next synchronization.
func (a *Authority) updateSecret(ctx context.Context) (state, error) {
	secret := &corev1.Secret{}
	secrets := func(r *rest.Request) *rest.Request { return r.Namespace(a.cfg.Namespace).Resource("secrets") }
	err := secrets(a.cfg.Core.Get()).Name(a.cfg.Secret).Do(ctx).Into(secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return state{}, fmt.Errorf("reading Secret %s: %w", a.cfg.Secret, err)
	}
	current := state{secret.Data[authoritiesKey], secret.Data[authorityKeyKey],
		secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]}
	base := current
	if !current.usable(time.Now()) {
		base = a.state
	}
	next, err := base.next(time.Now(), a.cfg.Service+"."+a.cfg.Namespace+".svc")
	if err != nil || next.equal(current) {
		return next, err
	}
	data := map[string][]byte{
		authoritiesKey: next.Authorities, authorityKeyKey: next.AuthorityKey,
		corev1.TLSCertKey: next.Certificate, corev1.TLSPrivateKeyKey: next.Key,
	}
	if missing {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.cfg.Namespace, Name: a.cfg.Secret},
			Type: corev1.SecretTypeTLS, Data: data}
		err = secrets(a.cfg.Core.Post()).Body(secret).Do(ctx).Error()
	} else {
		secret.Data = data // keeps the resource version: a concurrent update is a conflict
		err = secrets(a.cfg.Core.Put()).Name(a.cfg.Secret).Body(secret).Do(ctx).Error()
	}
	if err != nil {
		return state{}, fmt.Errorf("writing Secret %s: %w", a.cfg.Secret, err) // after a conflict the other state is read
	}
	return next, nil
}

// publish sets the authorities in a configuration. It patches the object, so that unknown
// fields stay.
func (a *Authority) publish(ctx context.Context, resource string, authorities []byte) error {
	var c struct {
		Metadata metav1.ObjectMeta
		Webhooks []struct {
			ClientConfig admissionregistrationv1.WebhookClientConfig
		}
	}
	request := func(r *rest.Request) *rest.Request { return r.Resource(resource).Name(a.cfg.Configuration) }
	text, err := request(a.cfg.Registrations.Get()).SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", resource, a.cfg.Configuration, err)
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	patch := []operation{{"test", "/metadata/resourceVersion", c.Metadata.ResourceVersion}}
	for i, w := range c.Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, authorities) {
			patch = append(patch, operation{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), authorities})
		}
	}
	if len(patch) == 1 {
		return nil
	}
	if text, err = json.Marshal(patch); err == nil {
		err = request(a.cfg.Registrations.Patch(types.JSONPatchType)).Body(text).Do(ctx).Error()
	}
	if err != nil {
		return fmt.Errorf("writing %s %s: %w", resource, a.cfg.Configuration, err)
	}
	a.cfg.Logger.Info("published the certificate authorities", "resource", resource, "name", a.cfg.Configuration)
	return nil
}
