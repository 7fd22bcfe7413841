// Mongoose: a schema with unique and TTL indexes, save, populate, bulkWrite, lean, findOneAndUpdate,
// transactions.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import mongoose from 'mongoose';

import {Server} from './support/server.mjs';

let server, Author, Book;
before(async () => {
  server = await Server.start();
  await mongoose.connect(`mongodb://127.0.0.1:${server.port}/library?directConnection=true`);
  Author = mongoose.model('Author', new mongoose.Schema(
    {name: {type: String, required: true, unique: true}, born: Date}, {timestamps: true}));
  Book = mongoose.model('Book', new mongoose.Schema({
    title: {type: String, index: true}, author: {type: mongoose.Types.ObjectId, ref: 'Author'},
    copies: {type: Number, default: 1}, tags: [String], lentUntil: {type: Date, expires: 3600}}));
  await Promise.all([Author.init(), Book.init()]);
});
after(async () => {
  await mongoose.disconnect();
  assert.equal(await server?.stop(), 0);
});

test('indexes of the schema exist', async () => {
  const authors = await Author.collection.indexes();
  assert.ok(authors.some((i) => i.unique && i.key.name === 1));
  const books = await Book.collection.indexes();
  assert.ok(books.some((i) => i.expireAfterSeconds === 3600));
});

test('save, unique violation, populate, lean', async () => {
  const author = await new Author({name: 'Karel Čapek', born: new Date('1890-01-09')}).save();
  await assert.rejects(new Author({name: 'Karel Čapek'}).save(), {code: 11000});
  await Book.create([{title: 'R.U.R.', author, tags: ['drama', 'robots']}, {title: 'Krakatit', author}]);
  const found = await Book.findOne({tags: 'robots'}).populate('author');
  assert.equal(found.author.name, 'Karel Čapek');
  const lean = await Book.find({author: author._id}).sort('title').select('title -_id').lean();
  assert.deepEqual(lean, [{title: 'Krakatit'}, {title: 'R.U.R.'}]);
});

test('document edits, versioned arrays, findOneAndUpdate, bulkWrite', async () => {
  const book = await Book.findOne({title: 'Krakatit'});
  book.tags.push('novel');
  book.copies += 4;
  await book.save();
  assert.deepEqual([...(await Book.findById(book._id)).tags], ['novel']);
  const updated = await Book.findOneAndUpdate({title: 'Krakatit'}, {$inc: {copies: 1}}, {new: true});
  assert.equal(updated.copies, 6);
  const result = await Book.bulkWrite([
    {insertOne: {document: {title: 'Hordubal'}}},
    {updateOne: {filter: {title: 'R.U.R.'}, update: {$set: {copies: 9}}}},
    {deleteOne: {filter: {title: 'Krakatit'}}}]);
  assert.deepEqual([result.insertedCount, result.modifiedCount, result.deletedCount], [1, 1, 1]);
  assert.equal(await Book.countDocuments(), 2);
});

test('aggregate with a lookup', async () => {
  const rows = await Book.aggregate([
    {$match: {title: 'R.U.R.'}},
    {$lookup: {from: 'authors', localField: 'author', foreignField: '_id', as: 'by'}},
    {$unwind: '$by'}, {$project: {_id: 0, title: 1, name: '$by.name'}}]);
  assert.deepEqual(rows, [{title: 'R.U.R.', name: 'Karel Čapek'}]);
});

test('withTransaction: all or nothing, over models, with documents and their hooks', async () => {
  const author = await Author.findOne({name: 'Karel Čapek'});
  const book = await Book.create({title: 'Hordubal', author});
  const before = {copies: book.copies, books: await Book.countDocuments(), authors: await Author.countDocuments()};
  await assert.rejects(mongoose.connection.transaction(async (session) => {
    book.copies += 100;
    await book.save({session});
    await new Author({name: 'Josef Čapek'}).save({session});
    await Book.create([{title: 'half way', author}], {session});
    assert.equal(await Book.countDocuments().session(session), before.books + 1);
    assert.equal(await Book.countDocuments(), before.books);
    throw new Error('changed my mind');
  }), /changed my mind/);
  // The document is as it was before, and can be saved again.
  assert.equal((await Book.findById(book)).copies, before.copies);
  assert.deepEqual([await Book.countDocuments(), await Author.countDocuments()], [before.books, before.authors]);
  await mongoose.connection.withSession((session) => session.withTransaction(async () => {
    const brother = await new Author({name: 'Josef Čapek'}).save({session});
    await Book.create([{title: 'Povídání o pejskovi', author: brother}], {session});
    const joined = await Book.findOne({title: /^Pov/}, null, {session}).populate('author');
    assert.equal(joined.author.name, 'Josef Čapek');
    await assert.rejects(Author.findOne({name: 'Josef Čapek'}).orFail());
  }));
  assert.equal((await Book.findOne({title: /^Pov/}).populate('author')).author.name, 'Josef Čapek');
});

test('withTransaction is tried again after a conflict', async () => {
  const {_id} = await Book.create({title: 'fought over', copies: 0});
  let attempts = 0;
  await Promise.all(Array.from({length: 6}, () => mongoose.connection.transaction(async (session) => {
    ++attempts;
    const one = await Book.findById(_id).session(session);
    one.copies += 1;
    await one.save({session});
  })));
  assert.equal((await Book.findById(_id)).copies, 6);
  assert.ok(attempts >= 6);
});
