// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package selfsigned

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

// TestNext_Lifetime runs through 30 years, in short steps after each new authority. At every
// step it verifies the certificate like an API server that has the authorities of the step
// before.
func TestNext_Lifetime(t *testing.T) {
	const long, short = 24 * time.Hour, 20 * time.Minute
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var s state
	var before []byte // the authorities that the API server has
	authorities, certificates, shortSteps := 0, 0, 0
	for end := now.Add(30 * 365 * 24 * time.Hour); now.Before(end); now = now.Add(long) {
		if shortSteps--; shortSteps > 0 {
			now = now.Add(short - long)
		}
		next, err := s.next(now, name)
		if err != nil {
			t.Fatal(err)
		}
		if string(next.AuthorityKey) != string(s.AuthorityKey) {
			authorities++
			shortSteps = 10
		}
		if string(next.Certificate) != string(s.Certificate) {
			certificates++
		}
		if before == nil {
			before = next.Authorities
		}
		verify(t, next, before, now, next.equal(s))
		before, s = s.Authorities, next
		if before == nil {
			before = s.Authorities
		}
	}
	// 30 years, by 2/3 of 10 and of 90 days; one more certificate for each new authority.
	if authorities != 5 || certificates < 180 || certificates > 190 {
		t.Errorf("%d authorities, %d certificates", authorities, certificates)
	}
}

const name = "webhook.ns.svc"

// verify checks a state, with a tolerance of two days for the lifetime. The certificate is
// verified only if the state is new, because that is slow.
func verify(t *testing.T, s state, trusted []byte, now time.Time, same bool) {
	t.Helper()
	pair, err := tls.X509KeyPair(s.Certificate, s.Key)
	if err != nil {
		t.Fatal(err)
	}
	if !same {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(trusted)
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: name}); err != nil {
			t.Fatalf("at %v: %v", now, err)
		}
	}
	if left := pair.Leaf.NotAfter.Sub(now); left < certificateLife/3-48*time.Hour {
		t.Fatalf("at %v: the certificate has %v left", now, left)
	}
	if n := len(s.authorities(now)); n > 2 {
		t.Fatalf("at %v: %d trusted authorities", now, n)
	}
}

// TestNext_Invalid: the state after an invalid one is valid.
func TestNext_Invalid(t *testing.T) {
	now := time.Now()
	good, err := state{}.next(now, "a.b.svc")
	if err != nil {
		t.Fatal(err)
	}
	other, err := state{}.next(now, "a.b.svc")
	if err != nil {
		t.Fatal(err)
	}
	for problem, s := range map[string]state{
		"another name":               good,
		"nothing":                    {},
		"no PEM":                     {[]byte("x"), []byte("x"), []byte("x"), []byte("x")},
		"the key of another":         {good.Authorities, other.AuthorityKey, good.Certificate, good.Key},
		"a certificate of another":   {good.Authorities, good.AuthorityKey, other.Certificate, other.Key},
		"no certificate":             {Authorities: good.Authorities, AuthorityKey: good.AuthorityKey},
		"no authority":               {Certificate: good.Certificate, Key: good.Key},
		"a certificate as authority": {good.Certificate, good.Key, good.Certificate, good.Key},
	} {
		next, err := s.next(now, "other.b.svc")
		if err != nil {
			t.Errorf("%s: %v", problem, err)
			continue
		}
		pair, err := tls.X509KeyPair(next.Certificate, next.Key)
		if err != nil || pair.Leaf.VerifyHostname("other.b.svc") != nil || !trusted(pair.Leaf, next.authorities(now), now) {
			t.Errorf("%s: invalid, %v", problem, err)
		}
		if again, err := next.next(now, "other.b.svc"); err != nil || !again.equal(next) {
			t.Errorf("%s: not stable, %v", problem, err)
		}
	}
}
