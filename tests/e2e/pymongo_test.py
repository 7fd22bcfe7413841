#!/usr/bin/python3
"""PyMongo as Debian ships it (3.11) against a running server. Usage: pymongo_test.py PORT"""
import datetime
import sys
import unittest

import bson
import pymongo

PORT = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 27017


class PyMongo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = pymongo.MongoClient("127.0.0.1", PORT, serverSelectionTimeoutMS=10000)
        cls.db = cls.client.pytest

    def test_primary_of_a_replica_set(self):
        hello = self.client.admin.command("isMaster")
        self.assertTrue(hello["ismaster"])
        self.assertEqual(hello["setName"], "rs0")

    def test_watch(self):
        watched = self.db.watched
        watched.insert_one({"_id": 0})
        with watched.watch(max_await_time_ms=100) as stream:
            self.assertIsNone(stream.try_next())
            watched.insert_one({"_id": 1})
            watched.update_one({"_id": 1}, {"$set": {"a": 1}})
            first = stream.next()
            self.assertEqual(first["operationType"], "insert")
            self.assertEqual(stream.next()["updateDescription"]["updatedFields"], {"a": 1})
        with self.db.watch(resume_after=first["_id"], full_document="updateLookup") as stream:
            self.assertEqual(stream.next()["fullDocument"], {"_id": 1, "a": 1})

    def test_types_round_trip(self):
        document = {
            "_id": bson.ObjectId(), "int": 1, "long": bson.Int64(2**40), "double": 2.5, "text": "ahoj",
            "bytes": b"\x00\x01", "none": None, "date": datetime.datetime(2020, 1, 2, 3, 4, 5, 678000),
            "list": [1, "a", {"b": []}], "decimal": bson.Decimal128("1.50"), "regex": bson.Regex("a", "i"),
        }
        self.db.types.insert_one(document)
        self.assertEqual(self.db.types.find_one({"_id": document["_id"]}), document)

    def test_crud(self):
        c = self.db.crud
        c.drop()
        c.insert_many([{"_id": i, "k": i % 3} for i in range(300)])
        self.assertEqual(c.count_documents({"k": 1}), 100)
        self.assertEqual(len(list(c.find({}, batch_size=10))), 300)
        self.assertEqual(c.update_many({"k": 2}, {"$inc": {"k": 10}}).modified_count, 100)
        self.assertEqual(c.find_one_and_update({"_id": 2}, {"$set": {"x": 1}},
                                               return_document=pymongo.ReturnDocument.AFTER)["x"], 1)
        self.assertEqual(c.delete_many({"k": 12}).deleted_count, 100)
        self.assertEqual(sorted(c.distinct("k")), [0, 1])
        self.assertEqual(list(c.aggregate([{"$group": {"_id": None, "n": {"$sum": 1}}}])),
                         [{"_id": None, "n": 200}])

    def test_wire_compression(self):
        for compressor in ("snappy", "zlib", "zstd"):
            with self.subTest(compressor):
                client = pymongo.MongoClient("127.0.0.1", PORT, compressors=compressor)
                document = {"_id": compressor, "text": "compressible " * 5000}
                client.pytest.compressed.replace_one({"_id": compressor}, document, upsert=True)
                self.assertEqual(client.pytest.compressed.find_one({"_id": compressor}), document)
                used = client.admin.command("serverStatus")["network"]["compression"][compressor]
                self.assertGreater(used["decompressor"]["bytesOut"], 65000)
                self.assertLess(used["decompressor"]["bytesIn"], 20000)
                self.assertGreater(used["compressor"]["bytesIn"], 65000)
                self.assertLess(used["compressor"]["bytesOut"], 20000)
                client.close()

    def test_errors(self):
        c = self.db.errors
        c.drop()
        c.create_index("u", unique=True)
        c.insert_one({"u": 1})
        with self.assertRaises(pymongo.errors.DuplicateKeyError) as caught:
            c.insert_one({"u": 1})
        self.assertEqual(caught.exception.details["keyPattern"], {"u": 1})
        with self.assertRaises(pymongo.errors.OperationFailure) as failed:
            self.db.command("noSuchCommand")
        self.assertEqual(failed.exception.code, 59)
        with self.assertRaises(pymongo.errors.OperationFailure) as failed:
            list(c.find({"$bogus": 1}))
        self.assertEqual(failed.exception.code, 2)

    def test_bulk(self):
        c = self.db.bulk
        c.drop()
        result = c.bulk_write([pymongo.InsertOne({"_id": 1}), pymongo.UpdateOne({"_id": 1}, {"$set": {"a": 1}}),
                               pymongo.ReplaceOne({"_id": 2}, {"b": 1}, upsert=True), pymongo.DeleteOne({"_id": 1})])
        self.assertEqual((result.inserted_count, result.modified_count, result.upserted_count,
                          result.deleted_count), (1, 1, 1, 1))

    def test_transactions(self):
        a, b = self.db.txn_a, self.client.pytest2.txn_b
        for c in (a, b):
            c.drop()
        majority = pymongo.write_concern.WriteConcern("majority")
        with self.client.start_session() as session:
            with session.start_transaction(read_concern=pymongo.read_concern.ReadConcern("snapshot"),
                                           write_concern=majority):
                a.insert_one({"_id": 1, "n": 1}, session=session)
                b.insert_many([{"_id": i} for i in range(3)], session=session)
                self.assertEqual(a.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, session=session,
                                                       return_document=pymongo.ReturnDocument.AFTER), {"_id": 1, "n": 2})
                self.assertEqual(a.count_documents({}), 0)
                self.assertEqual(b.count_documents({}, session=session), 3)
            self.assertEqual((a.count_documents({}), b.count_documents({})), (1, 3))
            # An exception aborts.
            with self.assertRaises(ZeroDivisionError):
                with session.start_transaction():
                    a.delete_many({}, session=session)
                    1 / 0
            self.assertEqual(a.count_documents({}), 1)

    def test_transactions_that_conflict(self):
        c = self.db.txn_conflict
        c.drop()
        c.insert_one({"_id": 1, "n": 0})
        with self.client.start_session() as one, self.client.start_session() as two:
            one.start_transaction()
            two.start_transaction()
            c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=one)
            with self.assertRaises(pymongo.errors.OperationFailure) as failed:
                c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=two)
            self.assertEqual(failed.exception.code, 112)
            self.assertTrue(failed.exception.has_error_label("TransientTransactionError"))
            one.commit_transaction()
            one.commit_transaction()  # may be said again
            two.abort_transaction()
        attempts = []

        def add(session):
            attempts.append(1)
            found = c.find_one({"_id": 1}, session=session)
            if len(attempts) == 1:
                c.update_one({"_id": 1}, {"$inc": {"n": 10}})  # from outside
            c.update_one({"_id": 1}, {"$set": {"n": found["n"] + 100}}, session=session)
            return found["n"]

        with self.client.start_session() as session:
            self.assertEqual(session.with_transaction(add), 11)
        self.assertEqual(len(attempts), 2)
        self.assertEqual(c.find_one()["n"], 111)


if __name__ == "__main__":
    unittest.main()
