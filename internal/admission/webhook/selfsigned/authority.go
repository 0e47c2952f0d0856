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

// How often the state is looked at: while there is an error, and else. The second is
// short beside Settle, so that all replicas and configurations know an authority in time.
const (
	retry = 2 * time.Second
	look  = 5 * time.Minute
)

// The keys of the Secret, besides those of kubernetes.io/tls.
const (
	authoritiesKey  = "ca.crt"
	authorityKeyKey = "ca.key"
)

// Config is where an Authority keeps its state, and whom it tells.
type Config struct {
	Core          rest.Interface // knows Secrets; required
	Registrations rest.Interface // knows the two kinds of webhook configurations; required
	Namespace     string         // of the Secret and of the Service
	Secret        string
	Service       string
	Configuration string // name of both configurations; one that is not there is passed over
	Logger        *slog.Logger
}

// Authority keeps the certificate of a replica. It has one once Run has found the Secret
// or made it.
type Authority struct {
	cfg Config

	mu     sync.Mutex
	served *tls.Certificate
	err    error // of the last look
}

// New returns an Authority, which does nothing before Run.
func New(c Config) *Authority {
	return &Authority{cfg: c, err: errors.New("the certificate has not been read yet")}
}

// Current returns the certificate that is served, nil while there is none, and why the API
// server should not ask.
func (a *Authority) Current() (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.served == nil:
		return nil, a.err
	case time.Now().After(a.served.Leaf.NotAfter):
		return a.served, fmt.Errorf("the certificate has expired on %v: %w", a.served.Leaf.NotAfter, a.err)
	}
	return a.served, nil // it is good, also while the API server is away
}

// Run keeps the Secret, the configurations and the certificate up to date until ctx ends.
func (a *Authority) Run(ctx context.Context) error {
	said := ""
	for {
		err := a.once(ctx)
		wait := look
		if err != nil {
			wait = retry
			if ctx.Err() == nil && err.Error() != said {
				said = err.Error()
				a.cfg.Logger.Warn("the certificate cannot be kept up to date, trying again", "error", err)
			}
		} else {
			said = ""
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// once looks at everything. The configurations come before the certificate is served: who
// asks trusts it then. While they cannot be written, what was served is.
func (a *Authority) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s, err := a.shared(ctx)
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
		a.cfg.Logger.Info("another certificate is served", "names", c.Leaf.DNSNames, "until", c.Leaf.NotAfter)
	}
	a.served = &c
	return nil
}

// shared returns the state of the Secret, which is brought up to date where it has to be.
// Of several replicas that do so one succeeds; the others read what it wrote.
func (a *Authority) shared(ctx context.Context) (State, error) {
	secret := &corev1.Secret{}
	secrets := func(r *rest.Request) *rest.Request { return r.Namespace(a.cfg.Namespace).Resource("secrets") }
	err := secrets(a.cfg.Core.Get()).Name(a.cfg.Secret).Do(ctx).Into(secret)
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return State{}, fmt.Errorf("reading Secret %s: %w", a.cfg.Secret, err)
	}
	was := State{secret.Data[authoritiesKey], secret.Data[authorityKeyKey], secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]}
	next, err := was.Next(time.Now(), a.cfg.Service+"."+a.cfg.Namespace+".svc")
	if err != nil || next.Equal(was) {
		return next, err
	}
	data := map[string][]byte{
		authoritiesKey: next.Authorities, authorityKeyKey: next.AuthorityKey, corev1.TLSCertKey: next.Certificate, corev1.TLSPrivateKeyKey: next.Key,
	}
	if absent {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.cfg.Namespace, Name: a.cfg.Secret}, Type: corev1.SecretTypeTLS, Data: data}
		err = secrets(a.cfg.Core.Post()).Body(secret).Do(ctx).Error()
	} else {
		secret.Data = data // over the version that was read
		err = secrets(a.cfg.Core.Put()).Name(a.cfg.Secret).Body(secret).Do(ctx).Error()
	}
	if err != nil {
		return State{}, fmt.Errorf("writing Secret %s: %w", a.cfg.Secret, err) // a conflict: the next look reads the other's
	}
	return next, nil
}

// publish has a configuration trust the authorities. It is patched, not written: fields
// that we do not know stay.
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
	a.cfg.Logger.Info("the API server is told whom to trust", "resource", resource, "name", a.cfg.Configuration)
	return nil
}
