// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package selfsigned

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Lifetimes of certificates. Each is replaced after two thirds of its lifetime: the rest is
// the time to notice a failure.
const (
	AuthorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 90 * 24 * time.Hour

	// Settle is how long an authority is trusted before it signs. By then every API server
	// has read the configurations, and every replica the Secret.
	Settle = time.Hour

	// skew is the tolerated difference between clocks.
	skew = 5 * time.Minute
)

// state is the state that the replicas share, in PEM. The zero value is the initial one.
type state struct {
	Authorities  []byte // trusted certificates, the newest last
	AuthorityKey []byte // of the newest
	Certificate  []byte // of the webhook
	Key          []byte
}

// next returns the state that follows s at the time now, for a server with a name. It returns
// s if nothing is due. An authority that is due gets a successor, which signs after Settle; the
// old one is removed when it has expired. An unreadable state is replaced, because it cannot
// be used.
func (s state) next(now time.Time, name string) (state, error) {
	if !s.usable(now) {
		return newState(now, name)
	}
	authorities := s.authorities(now)
	next := s
	next.Authorities = encode(authorities...)
	newest := authorities[len(authorities)-1]
	if due(newest, now) {
		successor, key, err := newAuthority(now)
		if err != nil {
			return s, err
		}
		next.Authorities, next.AuthorityKey = append(next.Authorities, successor...), key
		return next, nil // the successor signs later
	}
	served, err := tls.X509KeyPair(s.Certificate, s.Key)
	usable := err == nil && served.Leaf.VerifyHostname(name) == nil && trusted(served.Leaf, authorities, now)
	settled := now.Sub(newest.NotBefore) >= Settle+skew
	if usable && !(settled && (due(served.Leaf, now) || served.Leaf.CheckSignatureFrom(newest) != nil)) {
		return next, nil
	}
	next.Certificate, next.Key, err = issue(newest, s.AuthorityKey, now, name)
	return next, err
}

// usable reports whether the newest authority can sign.
func (s state) usable(now time.Time) bool {
	authorities := s.authorities(now)
	return len(authorities) > 0 && s.hasKeyOf(authorities[len(authorities)-1])
}

// equal reports whether two states are equal.
func (s state) equal(o state) bool {
	return bytes.Equal(s.Authorities, o.Authorities) && bytes.Equal(s.AuthorityKey, o.AuthorityKey) &&
		bytes.Equal(s.Certificate, o.Certificate) && bytes.Equal(s.Key, o.Key)
}

// newState returns a state with a new authority that signs at once: no certificate of another
// one is in use.
func newState(now time.Time, name string) (state, error) {
	cert, key, err := newAuthority(now)
	if err != nil {
		return state{}, err
	}
	s := state{Authorities: cert, AuthorityKey: key}
	s.Certificate, s.Key, err = issue(s.authorities(now)[0], key, now, name)
	return s, err
}

// authorities returns the authorities that have not expired.
func (s state) authorities(now time.Time) []*x509.Certificate {
	var list []*x509.Certificate
	for rest := s.Authorities; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return list
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.IsCA && now.Before(c.NotAfter) {
			list = append(list, c)
		}
	}
}

// hasKeyOf reports whether AuthorityKey is the key of an authority.
func (s state) hasKeyOf(authority *x509.Certificate) bool {
	_, err := tls.X509KeyPair(encode(authority), s.AuthorityKey)
	return err == nil
}

// due reports whether two thirds of a certificate's lifetime have passed.
func due(c *x509.Certificate, now time.Time) bool {
	return now.Sub(c.NotBefore) >= c.NotAfter.Sub(c.NotBefore)*2/3
}

func trusted(c *x509.Certificate, authorities []*x509.Certificate, now time.Time) bool {
	roots := x509.NewCertPool()
	for _, a := range authorities {
		roots.AddCert(a)
	}
	_, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now})
	return err == nil
}

func newAuthority(now time.Time) (cert, key []byte, err error) {
	return sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: "dnsconfigurer webhook authority"},
		NotBefore: now.Add(-skew), NotAfter: now.Add(AuthorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
}

func issue(authority *x509.Certificate, authorityKey []byte, now time.Time, name string) (cert, key []byte, err error) {
	pair, err := tls.X509KeyPair(encode(authority), authorityKey)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the authority's key: %w", err)
	}
	signer, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("the authority's key is not an ECDSA key")
	}
	return sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "dnsconfigurer webhook"}, DNSNames: []string{name},
		NotBefore: now.Add(-skew), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, authority, signer)
}

// sign returns a new key and its certificate, signed by the authority or, if it is nil,
// self-signed.
func sign(template, authority *x509.Certificate, signer *ecdsa.PrivateKey) (cert, key []byte, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if authority == nil {
		authority, signer = template, own
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, own.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

func encode(certificates ...*x509.Certificate) []byte {
	var text []byte
	for _, c := range certificates {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}
