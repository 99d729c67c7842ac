"""What goes over the wire between device and aggregator: one form, read strictly on both sides.

    form      canonical JSON, numbers, tokens, keys
    manifest  what a campaign asks; signed, immutable, id = hash
    invite    the URL a person gets; its fragment is never sent
    routes    the addresses of a campaign
    exchange  query, claim, report and their answers
    problems  refusals

Standard library and `cryptography` only: this runs on the device. The text form of all this is docs/wire.md.
"""

from __future__ import annotations

from privquant.wire.exchange import ALREADY_CLAIMED as ALREADY_CLAIMED
from privquant.wire.exchange import ALREADY_COUNTED as ALREADY_COUNTED
from privquant.wire.exchange import CLAIMED as CLAIMED
from privquant.wire.exchange import CODED_CLAIM as CODED_CLAIM
from privquant.wire.exchange import COUNTED as COUNTED
from privquant.wire.exchange import MAX_TICKET as MAX_TICKET
from privquant.wire.exchange import Claim as Claim
from privquant.wire.exchange import Ticket as Ticket
from privquant.wire.exchange import WireReport as WireReport
from privquant.wire.exchange import check_ticket as check_ticket
from privquant.wire.exchange import claim_body as claim_body
from privquant.wire.exchange import parse_claim_receipt as parse_claim_receipt
from privquant.wire.exchange import parse_query_request as parse_query_request
from privquant.wire.exchange import parse_receipt as parse_receipt
from privquant.wire.exchange import query_request as query_request
from privquant.wire.exchange import receipt_body as receipt_body
from privquant.wire.form import BATCH_LIMIT as BATCH_LIMIT
from privquant.wire.form import MAX_BATCH_REQUEST as MAX_BATCH_REQUEST
from privquant.wire.form import MAX_MANIFEST as MAX_MANIFEST
from privquant.wire.form import MAX_REQUEST as MAX_REQUEST
from privquant.wire.form import SAFE_INTEGER as SAFE_INTEGER
from privquant.wire.form import TOKEN_BYTES as TOKEN_BYTES
from privquant.wire.form import VERSION as VERSION
from privquant.wire.form import SignatureError as SignatureError
from privquant.wire.form import TrustError as TrustError
from privquant.wire.form import WireError as WireError
from privquant.wire.form import canonical as canonical
from privquant.wire.form import check_code as check_code
from privquant.wire.form import check_hash as check_hash
from privquant.wire.form import check_token as check_token
from privquant.wire.form import exact_fields as exact_fields
from privquant.wire.form import fingerprint as fingerprint
from privquant.wire.form import new_code as new_code
from privquant.wire.form import new_token as new_token
from privquant.wire.form import parse_json as parse_json
from privquant.wire.form import parse_object as parse_object
from privquant.wire.form import public_key_of as public_key_of
from privquant.wire.form import real_from_wire as real_from_wire
from privquant.wire.form import real_to_wire as real_to_wire
from privquant.wire.form import token_from_bytes as token_from_bytes
from privquant.wire.form import token_hash as token_hash
from privquant.wire.form import typed_code as typed_code
from privquant.wire.form import whole_from_wire as whole_from_wire
from privquant.wire.form import whole_to_wire as whole_to_wire
from privquant.wire.invite import LOOPBACK as LOOPBACK
from privquant.wire.invite import Invite as Invite
from privquant.wire.manifest import MAX_EDGES as MAX_EDGES
from privquant.wire.manifest import MAX_WAVES as MAX_WAVES
from privquant.wire.manifest import Manifest as Manifest
from privquant.wire.manifest import Waves as Waves
from privquant.wire.manifest import domain_from_wire as domain_from_wire
from privquant.wire.manifest import domain_to_wire as domain_to_wire
from privquant.wire.manifest import new_nonce as new_nonce
from privquant.wire.manifest import open_envelope as open_envelope
from privquant.wire.manifest import sign_manifest as sign_manifest
from privquant.wire.problems import PROBLEM_MEDIA as PROBLEM_MEDIA
from privquant.wire.problems import PROBLEM_TYPE as PROBLEM_TYPE
from privquant.wire.problems import PROBLEMS as PROBLEMS
from privquant.wire.problems import Problem as Problem
from privquant.wire.problems import ProblemKind as ProblemKind
from privquant.wire.problems import parse_problem as parse_problem
from privquant.wire.problems import problem_body as problem_body
from privquant.wire.routes import BATCH as BATCH
from privquant.wire.routes import CLAIMS as CLAIMS
from privquant.wire.routes import MANIFEST as MANIFEST
from privquant.wire.routes import QUERY as QUERY
from privquant.wire.routes import REPORTS as REPORTS
from privquant.wire.routes import ROUTES as ROUTES
from privquant.wire.routes import Route as Route
from privquant.wire.routes import path_of as path_of
from privquant.wire.routes import route_of as route_of
